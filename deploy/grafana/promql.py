"""PromQL over the servers that are chosen in the dashboard."""

SERVERS = 'job="tessera", namespace=~"$namespace", instance=~"$instance"'


def chosen(metric: str, **labels: str) -> str:
    """The series of `metric` of the chosen servers; a label's value `!~x` or `=~x` is a pattern."""
    matchers = [SERVERS]
    for label, value in labels.items():
        operator = value[:2] if value[:2] in ("!~", "=~") else "="
        matchers.append(f'{label}{operator}"{value.removeprefix(operator)}"')
    return f"{metric}{{{', '.join(matchers)}}}"


def rate(metric: str, by: str = "", **labels: str) -> str:
    """Sum of the rates of a counter, by the labels `by`."""
    return f"sum{f' by ({by})' if by else ''} (rate({chosen(metric, **labels)}[$__rate_interval]))"


def gauge(metric: str, by: str = "instance", **labels: str) -> str:
    return f"sum by ({by}) ({chosen(metric, **labels)})"


def quantile(q: float, metric: str, by: str = "", **labels: str) -> str:
    return f"histogram_quantile({q}, {rate(metric + '_bucket', ', '.join(filter(None, [by, 'le'])), **labels)})"


def mean(metric: str, by: str = "", **labels: str) -> str:
    return f"{rate(metric + '_sum', by, **labels)} / {rate(metric + '_count', by, **labels)}"
