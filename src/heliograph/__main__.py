from heliograph.cli.main import main

main()
