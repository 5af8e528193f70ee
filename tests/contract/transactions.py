from confluent_kafka import Producer

from tests.clusters import LiveCluster, unique_name


def in_transactions(cluster: LiveCluster, topic: str, fates: list[str]) -> None:
    """Write ten records to partition 0 in one transaction each; those whose fate is "drop" are aborted."""
    producer = Producer(cluster.client(transactional_id=unique_name()))
    producer.init_transactions(30)
    for transaction, fate in enumerate(fates):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, f"{fate} {transaction * 10 + number}".encode(), partition=0)
        producer.flush(30)
        if fate == "keep":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
