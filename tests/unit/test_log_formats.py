"""Log formats in use. The comment above each line names the documentation page of its format."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from squinney.analytics.parsers import DETECTED, Malformed, detect, parse_any, parser_for
from squinney.errors import Invalid

# https://httpd.apache.org/docs/2.4/logs.html#accesslog
CLF = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326'
AGENT = '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
COMBINED = f"{CLF} {AGENT}"
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html; fields were added at the end several times
S3 = (
    "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be amzn-s3-demo-bucket1"
    " [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"
    ' 3E57427F3EXAMPLE REST.GET.VERSIONING - "GET /amzn-s3-demo-bucket1?versioning HTTP/1.1" 200 - 113 - 7 - "-"'
    ' "S3Console/0.4" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= SigV4'
    " ECDHE-RSA-AES128-GCM-SHA256 AuthHeader amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com TLSV1.2"
    " arn:aws:s3:us-west-1:123456789012:accesspoint/example-AP Yes us-east-1"
)
S3_UP_TO_2018 = S3[: S3.index(" s9lzHYrFp76")]
S3_EXPIRED = (
    f"{S3[:64]} amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] - AmazonS3 3E57427F3EXAMPLE S3.EXPIRE.OBJECT"
    ' a/b "-" - - - 12 - - "-" "-" - s9lzHYrFp76= - - - - - - - us-east-1'
)
# https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
ALB = (
    "http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000"
    ' 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - -'
    " arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067"
    ' "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-"'
    ' "10.0.0.1:80" "200" "-" "-" TID_1234abcd5678ef90'
)
ALB_WITHOUT_TRACE = ALB.removesuffix(" TID_1234abcd5678ef90")
# The fields up to the user agent are those that differ between the kinds of listener.
ALB_REST = ALB.partition('"curl/7.46.0" ')[2]
ALB_H2 = (
    "h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.1.252:48160 10.0.0.66:9000 0.000 0.002"
    f' 0.000 200 200 5 257 "GET https://10.0.2.105:773/ HTTP/2.0" "curl/7.46.0" {ALB_REST}'
)
ALB_HTTPS = (
    "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086"
    ' 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0"'
    " ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2"
    " arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067"
    ' "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com"'
    ' "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012"'
    ' 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1234abcd5678ef90'
)
ALB_OF_2016 = ALB[: ALB.index(' "-" "-" 0 2018-')]
ALB_LAMBDA = (
    "http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - 0.000 0.001 0.000"
    ' 502 - 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - -'
    " arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067"
    ' "Root=1-58337364-23a8c76965a2ef7629b185e3" "-" "-" 0 2018-11-30T22:22:48.364000Z "forward" "-"'
    ' "LambdaInvalidResponse" "-" "-" "-" "-" TID_1234abcd5678ef90'
)
ALB_WS = (
    "ws 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.0.140:40914 10.0.1.192:8010 0.001 0.003"
    f' 0.000 101 101 218 587 "GET http://10.0.0.30:80/ HTTP/1.1" "-" {ALB_REST}'
)
# https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html
ELB = (
    "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200"
    ' 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -'
)
OLD_ELB = ELB.removesuffix(' "curl/7.38.0" - -')
ELB_HTTPS = (
    "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000086 0.001048 0.001337 200 200"
    ' 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.38.0" DHE-RSA-AES128-SHA TLSv1.2'
)
ELB_TCP = (
    "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - -"
    ' 82 305 "- - - " "-" - -'
)
ELB_SSL = (
    "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001065 0.000015 0.000023 - -"
    ' 57 502 "- - - " "-" ECDHE-ECDSA-AES128-GCM-SHA256 TLSv1.2'
)
# https://nginx.org/en/docs/http/ngx_http_log_module.html, and `main` as nginx's packages configure it
MAIN = (
    "$remote_addr - $remote_user [$time_local] "
    '"$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"'
)
# https://doc.traefik.io/traefik/observability/access-logs/
TRAEFIK_CLF = (
    '192.168.0.1 - - [01/Nov/2020:10:00:00 +0000] "GET /whoami HTTP/1.1" 200 342 "-" "curl/7.64.1" 3'
    ' "whoami@docker" "http://172.18.0.3:80" 1ms'
)


@pytest.mark.parametrize(
    ("line", "format", "wanted"),
    [
        (CLF, "common", {"host": "127.0.0.1", "user": "frank", "bytes": 2326, "path": "/apache_pb.gif"}),
        (COMBINED, "combined", {"host": "127.0.0.1", "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)"}),
        (f'{COMBINED} "203.0.113.9"', "combined", {"host": "127.0.0.1", "status": 200}),
        (f'{COMBINED} "203.0.113.9" rt=0.003 "-" -', "combined", {"status": 200}),
        (f"{CLF} 1234 0.5", "common", {"bytes": 2326}),
        (TRAEFIK_CLF, "combined", {"path": "/whoami", "user_agent": "curl/7.64.1"}),
        (f"www.example.org:80 {COMBINED}", "vhost_combined", {"site": "www.example.org", "host": "127.0.0.1"}),
        (f"www.example.org {COMBINED}", "vhost_combined", {"site": "www.example.org", "host": "127.0.0.1"}),
        (f"- {COMBINED}", "vhost_combined", {"site": None, "host": "127.0.0.1"}),
        (f"192.0.2.80:80 {COMBINED}", "vhost_combined", {"site": "192.0.2.80", "host": "127.0.0.1"}),
        (f"{COMBINED} 512 2581", "combined", {"status": 200, "bytes": 2326}),  # combinedio
        (f"www.example.org {CLF}", "vhost_common", {"site": "www.example.org", "user": "frank"}),
        (
            f"www.example.org:443 {COMBINED}".replace("frank", "-"),
            "vhost_combined",
            {"site": "www.example.org", "host": "127.0.0.1"},
        ),
        (S3, "s3", {"site": "amzn-s3-demo-bucket1", "host": "192.0.2.3", "query": "versioning", "bytes": 113}),
        (ALB, "alb", {"site": "www.example.com", "host": "192.168.131.39", "path": "/", "bytes": 366, "status": 200}),
        (S3_UP_TO_2018, "s3", {"host": "192.0.2.3", "bytes": 113, "user_agent": "S3Console/0.4"}),
        (S3_EXPIRED, "s3", {"site": "amzn-s3-demo-bucket1", "host": None, "user": "AmazonS3", "path": None}),
        (ALB_WITHOUT_TRACE, "alb", {"site": "www.example.com", "bytes": 366}),
        (f'{ALB} "-" "-" "-"', "alb", {"site": "www.example.com", "bytes": 366}),
        (ALB_OF_2016, "alb", {"site": "www.example.com", "bytes": 366}),
        (ALB_HTTPS, "alb", {"site": "www.example.com", "bytes": 57, "user_agent": "curl/7.46.0"}),
        (ALB_LAMBDA, "alb", {"host": "192.168.131.39", "status": 502, "bytes": 366}),
        (ALB.replace("10.0.0.1:80 0.000", "- 0.000"), "alb", {"host": "192.168.131.39", "status": 200}),
        (ALB_H2, "alb", {"site": "10.0.2.105", "host": "10.0.1.252", "protocol": "HTTP/2.0", "bytes": 257}),
        (ALB_WS, "alb", {"site": "10.0.0.30", "host": "10.0.0.140", "status": 101}),
        (ELB, "elb", {"site": "www.example.com", "path": "/", "bytes": 29, "user_agent": "curl/7.38.0"}),
        (OLD_ELB, "elb", {"site": "www.example.com", "path": "/", "bytes": 29}),
        (ELB_HTTPS, "elb", {"site": "www.example.com", "path": "/", "bytes": 57, "status": 200}),
        (ELB_TCP, "elb", {"host": "192.168.131.39", "path": None, "status": None, "bytes": 305}),
        (ELB_SSL, "elb", {"host": "192.168.131.39", "path": None, "status": None, "bytes": 502}),
    ],
)
def test_a_line_is_detected_and_parsed(line, format, wanted):
    assert detect(["garbage", line]) == format
    event = parser_for(format)(line)
    assert {name: event.get(name) for name in wanted} == wanted
    assert parse_any(line) == event


def test_times_of_load_balancers():
    assert parser_for("alb")(ALB)["time"] == datetime(2018, 7, 2, 22, 23, 0, 186641, tzinfo=UTC)
    assert parser_for("elb")(ELB)["time"] == datetime(2015, 5, 13, 23, 39, 43, 945958, tzinfo=UTC)


def test_a_dash_as_request_is_absent():
    line = ELB.replace("GET http://www.example.com:80/ HTTP/1.1", "- - - ")
    assert "path" not in parser_for("elb")(line)


# ---- two lines in one ----


# Before that it is one address or name with no space in it, and nobody can tell.
@pytest.mark.parametrize("cut", range(len("127.0.0.1 - frank "), len(COMBINED)))
def test_two_lines_glued_together_are_rejected(cut):
    """Regression: a truncated line followed by another one was stored as an event of the first line's visitor."""
    second = COMBINED.replace("127.0.0.1", "203.0.113.7").replace("frank", "-")
    glued = COMBINED[:cut] + second
    for format in ("combined", "common", "auto"):
        with pytest.raises(Malformed):
            parser_for(format)(glued)


def test_a_cut_within_the_user_name_is_rejected():
    with pytest.raises(Malformed, match="two lines in one"):
        parser_for("combined")("127.0.0.1 - fra" + COMBINED)


def test_a_user_name_may_contain_spaces():
    assert parser_for("combined")(COMBINED.replace("frank", "frank n furter"))["user"] == "frank n furter"


# ---- format strings ----


@pytest.mark.parametrize(
    ("format", "line", "wanted"),
    [
        (MAIN, f'{COMBINED} "-"', {"host": "127.0.0.1", "user": "frank", "path": "/apache_pb.gif", "status": 200}),
        (
            "$msec|$host|$remote_addr|$request_method|$request_uri|$status|$bytes_sent",
            "1700000000.250|example.org:8080|2001:db8::1|GET|/a?b=c|304|0",
            {"site": "example.org", "host": "2001:db8::1", "path": "/a", "query": "b=c", "bytes": 0},
        ),
        (r"%h %l %u %t \"%r\" %>s %b", CLF, {"user": "frank", "bytes": 2326}),
        (
            r"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"",
            f"example.org:80 {COMBINED}",
            {"site": "example.org", "host": "127.0.0.1", "referer": "http://www.example.com/start.html"},
        ),
        (
            "%{msec}t %a %m %U %q %H %400,501{User-agent}i",
            "1700000000250 192.0.2.1 POST /form ?x=1 HTTP/1.1 -",
            {"host": "192.0.2.1", "method": "POST", "path": "/form", "query": "x=1", "protocol": "HTTP/1.1"},
        ),
        (
            r"%v %l %u %t \"%r\" %>s %b",  # the example of a log by virtual hosts: it has no visitor
            CLF.replace("127.0.0.1", "www.example.org"),
            {"site": "www.example.org", "host": None, "user": "frank"},
        ),
        ("%h %D %t %r", "h 123 [10/Oct/2000:13:55:36 -0700] GET", {"host": "h"}),
    ],
)
def test_a_format_string(format, line, wanted):
    event = parser_for(format)(line)
    assert {name: event.get(name) for name in wanted} == wanted
    assert event["time"].tzinfo is UTC


@pytest.mark.parametrize("format", ["$remote_addr $status", "%h %s", "%{%Y}t %h", "$time_local$status", "%%t"])
def test_a_bad_format_string_is_refused(format):
    with pytest.raises(Invalid) as caught:
        parser_for(format)
    assert caught.value.details["field"] == "format"


# ---- JSON ----


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (  # nginx, log_format with escape=json
            '{"time_iso8601":"2024-05-17T10:05:03+02:00","remote_addr":"192.0.2.1","remote_user":"","host":"example.org",'
            '"request":"GET /a?b=c HTTP/2.0","status":"200","body_bytes_sent":"12","http_referer":"",'
            '"http_user_agent":"curl/8.5"}',
            {
                "site": "example.org",
                "host": "192.0.2.1",
                "path": "/a",
                "query": "b=c",
                "bytes": 12,
                "user_agent": "curl/8.5",
            },
        ),
        (
            '{"msec":"1700000000.123","remote_addr":"192.0.2.1","request_uri":"/x","status":404}',
            {"path": "/x", "status": 404, "time": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)},
        ),
        (  # Traefik
            '{"ClientAddr":"192.0.2.1:5000","ClientHost":"192.0.2.1","ClientUsername":"-","DownstreamContentSize":342,'
            '"DownstreamStatus":200,"Duration":1,"RequestAddr":"whoami.example","RequestHost":"whoami.example",'
            '"RequestMethod":"GET","RequestPath":"/a?b","RequestProtocol":"HTTP/1.1","RequestScheme":"http",'
            '"StartUTC":"2024-05-17T08:05:03.123456789Z","entryPointName":"web","level":"info","msg":"",'
            '"request_User-Agent":"curl/8.5","time":"2024-05-17T08:05:04Z"}',
            {
                "site": "whoami.example",
                "host": "192.0.2.1",
                "path": "/a",
                "query": "b",
                "status": 200,
                "bytes": 342,
                "user_agent": "curl/8.5",
                "time": datetime(2024, 5, 17, 8, 5, 3, 123456, tzinfo=UTC),
            },
        ),
    ],
)
def test_json_of_known_servers_needs_no_map(line, wanted):
    assert detect([line]) == "json"
    event = parser_for("json")(line)
    assert {name: event.get(name) for name in wanted} == wanted
    assert "user" not in event


# https://docs.docker.com/engine/logging/drivers/json-file/: a combined line, as nginx's image writes it
DOCKER = (
    '{"log":"172.17.0.1 - - [17/May/2024:08:05:03 +0000] \\"GET /a?b=c HTTP/1.1\\" 200 615 \\"-\\" \\"curl/8.5\\"'
    ' \\"-\\"\\n","stream":"stdout","time":"2024-05-17T08:05:03.123456789Z"}'
)
# nginx, log_format with escape=json and names of one's own: here `host` is the server
NGINX_JSON = (
    '{"time":"2024-05-17T10:05:03+02:00","ip":"192.0.2.1","host":"example.org","user":"ann","method":"POST","uri":"/a",'
    '"args":"b=c","protocol":"HTTP/2.0","status":"201","size":"12","referer":"https://example.org/","ua":"x",'
    '"user_agent":"curl/8.5"}'
)
# https://www.elastic.co/guide/en/ecs/current/ecs-mapping-network-events.html, as Filebeat's nginx module writes it
ECS = (
    '{"@timestamp":"2024-05-17T08:05:03.000Z","agent":{"type":"filebeat","version":"8.13.0"},"ecs":{"version":"8.0.0"},'
    '"event":{"dataset":"nginx.access","outcome":"success"},"fileset":{"name":"access"},"host":{"name":"web1"},'
    '"http":{"request":{"method":"GET","referrer":"https://example.org/"},'
    '"response":{"body":{"bytes":615},"status_code":200},"version":"1.1"},"log":{"file":{"path":"/var/log/a.log"}},'
    '"source":{"address":"192.0.2.1","ip":"192.0.2.1"},"url":{"domain":"example.org","original":"/a?b=c","path":"/a",'
    '"query":"b=c"},"user":{"name":"ann"},"user_agent":{"name":"curl","original":"curl/8.5"}}'
)
# Apache, LogFormat "%{X-Forwarded-For}i %l %u %t ...", behind two proxies
FORWARDED = f"203.0.113.9, 10.0.0.1, 10.0.0.2 {COMBINED.partition(' ')[2]}"
# Here `host` is the server's address, as in many configurations for Logstash
BESIDE_SERVER = (
    '{"@timestamp":"2024-05-17T08:05:03Z","host":"10.0.0.1","http_host":"example.org","uri":"/a","status":200'
)
AT_EIGHT = datetime(2024, 5, 17, 8, 5, 3, tzinfo=UTC)
REST = {
    "site": "example.org",
    "host": "192.0.2.1",
    "user": "ann",
    "path": "/a",
    "query": "b=c",
    "referer": "https://example.org/",
    "user_agent": "curl/8.5",
}


@pytest.mark.parametrize(
    ("line", "format", "event"),
    [
        (
            DOCKER,
            "combined",
            {
                "time": AT_EIGHT,
                "host": "172.17.0.1",
                "method": "GET",
                "path": "/a",
                "query": "b=c",
                "protocol": "HTTP/1.1",
                "status": 200,
                "bytes": 615,
                "user_agent": "curl/8.5",
            },
        ),
        (
            NGINX_JSON,
            "json",
            {"time": AT_EIGHT, **REST, "method": "POST", "protocol": "HTTP/2.0", "status": 201, "bytes": 12},
        ),
        (
            ECS,
            "json",
            {"time": AT_EIGHT, **REST, "method": "GET", "protocol": "HTTP/1.1", "status": 200, "bytes": 615},
        ),
        (
            FORWARDED,
            "combined",
            {
                "time": datetime(2000, 10, 10, 20, 55, 36, tzinfo=UTC),
                "host": "203.0.113.9",
                "user": "frank",
                "method": "GET",
                "path": "/apache_pb.gif",
                "protocol": "HTTP/1.0",
                "status": 200,
                "bytes": 2326,
                "referer": "http://www.example.com/start.html",
                "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
            },
        ),
    ],
)
def test_every_field_is_understood(line, format, event):
    """Regression: they were stored with the proxy as the visitor, the server as the visitor, or only with a time."""
    assert detect([line]) == format
    assert parser_for(format)(line) == parser_for("auto")(line) == event


@pytest.mark.parametrize(
    ("line", "format", "wanted"),
    [
        (f"203.0.113.9,10.0.0.1 {COMBINED.partition(' ')[2]}", "combined", {"host": "203.0.113.9", "site": None}),
        (f"www.example.org:80 {FORWARDED}", "vhost_combined", {"host": "203.0.113.9", "site": "www.example.org"}),
        (f"unknown, 203.0.113.9 {COMBINED.partition(' ')[2]}", "combined", {"host": None, "user": "frank"}),
        (f"unknown {COMBINED.partition(' ')[2]}", "combined", {"host": None, "user": "frank"}),
        (f"-, 10.0.0.1 {COMBINED.partition(' ')[2]}", "combined", {"host": None, "site": None, "user": "frank"}),
        (NGINX_JSON.replace('"192.0.2.1"', '"192.0.2.1, 10.0.0.1"'), "json", {"host": "192.0.2.1"}),
        (NGINX_JSON.replace('"ip"', '"whose"'), "json", {"host": None, "site": "example.org"}),
        (NGINX_JSON.replace('"ip"', '"client"'), "json", {"host": "192.0.2.1", "site": "example.org"}),
        (BESIDE_SERVER + ',"client":"192.0.2.1"}', "json", {"host": "192.0.2.1", "site": "example.org"}),
        (BESIDE_SERVER + ',"xff":"192.0.2.1, 10.0.0.9"}', "json", {"host": "192.0.2.1", "site": "example.org"}),
        (BESIDE_SERVER + ',"client":"an app"}', "json", {"host": "10.0.0.1", "site": "example.org"}),
        (NGINX_JSON.replace('"ip"', '"x"').replace("example.org", "2001:db8::1", 1), "json",
         {"host": "2001:db8::1", "site": None}),
        (NGINX_JSON.replace('"ann"', "42"), "json", {"user": "42"}),
        (NGINX_JSON.replace('"HTTP/2.0"', "2"), "json", {"protocol": "HTTP/2"}),
        (ECS.replace('"path":"/a",', ""), "json", {"path": "/a", "query": "b=c"}),
        (ECS.replace('"path":"/a",', "").replace("/a?b=c", "https://a.org?b"), "json",
         {"site": "example.org", "path": "/", "query": "b=c"}),
        (ECS.replace('"url":{', '"url":"https://a.org/x","other":{'), "json", {"site": "a.org", "path": "/x"}),
        (ECS.replace('"user":{"name":"ann"}', '"user.name":"ann"'), "json", {"user": "ann"}),
        ('{"time":1700000000,"remote_addr":"192.0.2.1","request":"","status":400}', "json",
         {"status": 400, "path": None}),
        ('{"time":1700000000,"request":"GET / HTTP/1.1"}', "json", {"path": "/"}),
    ],
)  # fmt: skip
def test_variants_are_understood(line, format, wanted):
    event = parser_for(format)(line)
    assert {name: event.get(name) for name in wanted} == wanted


OTHER_JSON = '{"time":"2024-05-17T08:05:03Z","level":"info","msg":"started"'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (OTHER_JSON + "}", "no request"),
        (OTHER_JSON + ',"status":0,"host":"web1"}', "no request"),
        (OTHER_JSON + ',"path":"/etc/passwd"}', "no request"),
        (OTHER_JSON + ',"method":"poll"}', "no request"),
        (OTHER_JSON + ',"request":"4f1c"}', "no request"),
        (ECS.replace('"url":', '"uri2":'), "no request"),
        (ECS.replace('"original":"curl/8.5"', '"original":["curl/8.5"]'), "user_agent is not text"),
        (NGINX_JSON.replace('"/a"', "[1]"), "path is not text"),
        (NGINX_JSON.replace('"POST"', "true"), "method is not text"),
        (NGINX_JSON.replace('"192.0.2.1"', "17"), "host is not text"),
        (DOCKER.replace("\\n", ""), "only a part of a line"),
        (DOCKER.replace("172.17.0.1 - - ", ""), "none of the formats"),
        ('{"log":"2024/05/17 08:05:03 [notice] 1#1: start\\n","stream":"stderr","time":"x"}', "none of the formats"),
        ('{"log":"' + OTHER_JSON.replace('"', '\\"') + '}\\n","stream":"stdout","time":"x"}', "no request"),
        ('{"log":7,"stream":"stdout","time":"2024-05-17T08:05:03Z"}', "no request"),
        (COMBINED.replace("127.0.0.1", "203.0.113.9,"), "none of the formats"),
        (f"203.0.113.9 {COMBINED}", "none of the formats"),  # `$http_x_forwarded_for $remote_addr`: not a virtual host
        (f"2001:db8::1 {CLF}", "none of the formats"),
    ],
)  # fmt: skip
def test_what_was_not_understood_is_rejected(line, why):
    """Regression: most of these were stored, with a time and nothing else."""
    with pytest.raises(Malformed, match=why):
        parser_for("auto")(line)


def test_lines_within_those_of_docker_may_have_any_format():
    inner = '{"log":"192.0.2.1|/a|[17/May/2024:08:05:03 +0000]\\n","stream":"stdout","time":"x"}'
    assert parser_for("$remote_addr|$uri|[$time_local]")(inner)["path"] == "/a"
    mapped = '{"log":"{\\"when\\":1700000000,\\"page\\":\\"/a\\"}\\n","stream":"stdout","time":"x"}'
    assert parser_for("json", {"time": "when", "path": "page"})(mapped)["path"] == "/a"
    assert parser_for("auto")('{"log":"\\n","stream":"stdout","time":"x"}') is None


def test_a_map_may_name_a_nested_field():
    line = '{"at":1700000000,"request":{"uri":"/a","client":{"ip":"192.0.2.1"}}}'
    event = parser_for("json", {"time": "at", "path": "request.uri", "host": "request.client.ip"})(line)
    assert (event["path"], event["host"]) == ("/a", "192.0.2.1")


def test_a_line_in_no_format_is_rejected_with_the_formats_tried():
    with pytest.raises(Malformed) as caught:
        parse_any("dear diary")
    assert all(name in str(caught.value) for name in (*DETECTED, "w3c"))
    with pytest.raises(Malformed, match=r"JSON, but it has no time .*name its field with a field map"):
        parse_any('{"when": "2024-05-17T08:05:04Z"}')


# ---- the W3C's ----

# https://www.w3.org/TR/WD-logfile.html, section "Example": the day is in the header alone
DRAFT = [
    "#Version: 1.0",
    "#Date: 12-Jan-1996 00:00:00",
    "#Fields: time cs-method cs-uri",
    "00:34:23 GET /foo/bar.html",
    "12:45:52 GET /foo/bar.html?a=b",
]
# https://learn.microsoft.com/windows/win32/http/w3c-logging for names and order
IIS = [
    "#Software: Microsoft Internet Information Services 6.0",
    "#Version: 1.0",
    "#Date: 2002-05-02 17:42:15",
    "#Fields: date time c-ip cs-username s-ip s-port cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent)",
    "2002-05-02 17:42:15 172.22.255.255 - 172.30.255.255 80 GET /images/picture.jpg - 200"
    " Mozilla/4.0+(compatible;MSIE+5.5;+Windows+2000+Server)",
]
# https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html
CLOUDFRONT = [
    "#Version: 1.0",
    "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer)"
    " cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes"
    " time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status"
    " fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len"
    " sc-range-start sc-range-end",
    "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-"
    "\tMozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)%20AppleWebKit/537.36%20(KHTML,%20like%20Gecko)"
    "%20Chrome/78.0.3904.108%20Safari/537.36\ta=b\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ=="
    "\twww.example.com\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040"
    "\t0.001\tHit\ttext/html\t78\t-\t-",
]


def read(lines):
    parse = parser_for(detect(lines))
    return [event for event in map(parse, lines) if event]


def test_iis():
    assert read(IIS) == [
        {
            "time": datetime(2002, 5, 2, 17, 42, 15, tzinfo=UTC),
            "host": "172.22.255.255",
            "method": "GET",
            "path": "/images/picture.jpg",
            "status": 200,
            "user_agent": "Mozilla/4.0 (compatible;MSIE 5.5; Windows 2000 Server)",
        }
    ]


def test_iis_with_the_fields_that_it_logs_by_default():
    lines = [
        "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer)"
        " sc-status sc-substatus sc-win32-status time-taken",
        "2024-05-17 08:05:03 10.0.0.4 GET /a.aspx b=c 443 DOMAIN\\ann 203.0.113.7 Mozilla/5.0+(X11) - 304 0 0 9",
    ]
    (event,) = read(lines)
    assert ("site" in event, event["host"], event["user"]) == (False, "203.0.113.7", "DOMAIN\\ann")
    assert (event["path"], event["query"], event["status"]) == ("/a.aspx", "b=c", 304)


def test_iis_with_all_fields_of_a_shared_server():
    lines = [
        "#Fields: date time s-sitename cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent)"
        " cs(Cookie) cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken",
        "2014-01-01 02:01:09 SAMPLEWEBSITE GET /step2.png X-ARR-LOG-ID=2ec4b8ad 80 - 1.54.23.196"
        " Mozilla/5.0+(Windows+NT+6.3;+WOW64) - http://weblogs.example/a.aspx www.example.com 200 0 0 53175 871 46",
    ]
    (event,) = read(lines)
    assert (event["site"], event["bytes"], event["status"]) == ("www.example.com", 53175, 200)
    assert event["referer"] == "http://weblogs.example/a.aspx"


def test_a_date_that_is_only_in_the_header():
    days = [event["time"] for event in read([*DRAFT, "#Date: 1996-01-13 00:00:00", "00:00:01 GET /b"])]
    assert days == [
        datetime(1996, 1, 12, 0, 34, 23, tzinfo=UTC),
        datetime(1996, 1, 12, 12, 45, 52, tzinfo=UTC),
        datetime(1996, 1, 13, 0, 0, 1, tzinfo=UTC),
    ]
    assert parser_for(detect(DRAFT))(DRAFT[3])["time"] == days[0], "whoever goes on behind the header knows the day"
    with pytest.raises(Malformed, match="no date"):
        parser_for(DRAFT[2])(DRAFT[3])


def test_cloudfront():
    (event,) = read(CLOUDFRONT)
    assert (event["site"], event["host"], event["bytes"]) == ("www.example.com", "192.0.2.100", 392)
    assert (event["path"], event["query"], event["user_agent"]) == (
        "/index.html",
        "a=b",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
        " Chrome/78.0.3904.108 Safari/537.36",
    )
    assert (event["time"], event["protocol"]) == (datetime(2019, 12, 4, 21, 2, 31, tzinfo=UTC), "HTTP/2.0")


def test_fields_may_change_within_a_log():
    changed = ["#Fields: date time c-ip cs-method cs-uri-stem", "2002-05-03 00:00:01 192.0.2.1 GET /b"]
    assert [event["path"] for event in read([*IIS, *changed])] == ["/images/picture.jpg", "/b"]
    with pytest.raises(Malformed, match="5 fields, but its #Fields: line has 11"):
        parser_for(detect(IIS))(changed[1])


JSON_TIMED = '{{"time": "2026-05-17T10:05:03Z", "path": "/", "method": "GET", {}}}'
NGINX_TIMED = '$remote_addr [$time_local] "$request" $status $request_time $http_cf_ipcountry'
APACHE_TIMED = '%h %t "%r" %>s {} "%{{CF-IPCountry}}i"'
TIMED = '203.0.113.7 [17/May/2026:12:05:03 +0200] "GET / HTTP/1.1" 200'
W3C_TIMED = "#Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken c-country"


@pytest.mark.parametrize(
    ("format", "line", "seconds", "country"),
    [
        (NGINX_TIMED, f"{TIMED} 0.125 DE", 0.125, "DE"),
        (NGINX_TIMED, f"{TIMED} - -", None, None),
        (NGINX_TIMED, f"{TIMED} -0.001 XX", None, None),
        (NGINX_TIMED, f"{TIMED} 9999999 Germany", None, None),
        (APACHE_TIMED.format("%D"), f'{TIMED} 125000 "T1"', 0.125, "T1"),
        (APACHE_TIMED.format("%T"), f'{TIMED} 2 "de"', 2, "DE"),
        (APACHE_TIMED.format("%{ms}T"), f'{TIMED} 125 "-"', 0.125, None),
        ("alb", ALB_HTTPS, 0.171, None),
        ("alb", ALB.replace("0.000 0.001 0.000", "-1 -1 -1"), None, None),
        ("s3", S3, 0.007, None),
        ("s3", S3_EXPIRED, None, None),
        ("json", JSON_TIMED.format('"request_time": "0.125", "http_cf_ipcountry": "DE"'), 0.125, "DE"),
        ("json", JSON_TIMED.format('"Duration": 125000000, "request_CF-IPCountry": "DE"'), 0.125, "DE"),
        ("json", JSON_TIMED.format('"event": {"duration": 125000000}'), 0.125, None),
        ("json", JSON_TIMED.format('"request_time": true, "geoip_country_code": 49'), None, None),
    ],
)
def test_how_long_a_request_took_and_its_country(format, line, seconds, country):
    event = parser_for(format)(line)
    assert (event.get("seconds"), event.get("country")) == (seconds, country)


@pytest.mark.parametrize(("taken", "seconds"), [("125", 0.125), ("0.125", 0.125), ("-", None)])
def test_iis_counts_milliseconds_and_cloudfront_seconds(taken, seconds):
    event = parser_for(W3C_TIMED)(f"2026-05-17 10:05:03 203.0.113.7 GET / 200 {taken} DE")
    assert (event.get("seconds"), event["country"]) == (seconds, "DE")


def test_a_map_may_name_the_seconds_and_the_country():
    event = parser_for("json", {"seconds": "took", "country": "land"})(JSON_TIMED.format('"took": 1.5, "land": "fr"'))
    assert (event["seconds"], event["country"]) == (1.5, "FR")
