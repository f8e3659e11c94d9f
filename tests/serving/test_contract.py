"""What entry scripts get and what clients get back: the contract of Azure's inference server."""

from __future__ import annotations

import json
import time
import urllib.parse
import uuid
from pathlib import Path

import pytest

from tests.serving.deployments import RunningGateway
from tests.waiting import wait_for

ECHO = """
    def init():
        pass

    def run(raw_data):
        return raw_data
"""


def test_the_first_parameter_gets_the_body_as_text(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    assert service.post('{"data": "é"}'.encode()).json == '{"data": "é"}'
    assert service.post(b"", content_type="text/csv").json == ""
    assert service.post(b"\xff\xfe").status == 400
    assert "UTF-8" in service.post(b"\xff\xfe").json["message"]


def test_parameters_of_a_get_arrive_as_json(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    answer = service.get("/score?a=1&b=[1,2]&c=x&c=y&d=null&e=a%20b")

    assert json.loads(answer.json) == {"a": 1, "b": [1, 2], "c": ["x", "y"], "d": None, "e": "a b"}


def test_a_script_may_ask_for_the_headers(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        def init(): pass
        def run(data, request_headers):
            kind = type(request_headers["Host"]).__name__
            return [data, request_headers["X-Mine"], request_headers.get("x-mine"), kind]
        """,
    )

    assert service.post(b"d", x_mine="7").json == ["d", "7", "7", "str"]


@pytest.mark.parametrize(
    ("expression", "body"),
    [
        ("{'a': [1, 2.5]}", '{"a": [1, 2.5]}'),
        ("'text'", '"text"'),
        ("None", "{}"),
        ("AMLResponse('plain', 201, {'X-A': 'b, c'})", "plain"),
        ("AMLResponse({'a': 1}, 202, json_str=True)", '{"a": 1}'),
        ("AMLResponse(b'\\x00\\xff', 200, {'Content-Type': 'image/png'})", "\x00ÿ"),
        ("AMLResponse(None, 200)", "{}"),
    ],
)
def test_what_run_returns_is_what_the_client_gets(
    gateway: RunningGateway, tmp_path: Path, expression: str, body: str
) -> None:
    service = gateway.deploy(
        tmp_path,
        f"""
        from azureml.contrib.services.aml_response import AMLResponse
        def init(): pass
        def run(data): return {expression}
        """,
    )

    answer = service.post(b"")

    assert answer.body.decode("latin-1") == body
    assert answer.header("x-ms-run-function-failed") == "False"
    if "201" in expression:
        assert answer.status == 201
        assert [value for name, value in answer.headers if name == "x-a"] == ["b", "c"]
    if "image" in expression:
        assert [value for name, value in answer.headers if name == "content-type"] == ["image/png"]
    elif expression.startswith(("{", "'t", "None")):
        assert answer.header("content-type") == "application/json"


def test_raw_http(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        from azureml.contrib.services.aml_request import AMLRequest, rawhttp
        from azureml_inference_server_http.api.aml_response import AMLResponse

        def init(): pass

        @rawhttp
        def run(request):
            assert isinstance(request, AMLRequest)
            if request.method == "OPTIONS":
                return AMLResponse("options", 200)
            if request.method == "GET":
                return AMLResponse(str.encode(request.full_path), 200)
            if request.files:
                image = request.files["image"]
                return {"name": image.filename, "bytes": list(image.read()), "form": request.form["text"],
                        "all": request.form.getlist("text"), "type": image.content_type}
            if request.is_json:
                return request.get_json()
            return AMLResponse(request.get_data(False)[::-1], 418, {"Content-Type": "application/x-mine"})
        """,
    )
    form = (
        b'--B\r\nContent-Disposition: form-data; name="text"\r\n\r\nhello\r\n'
        b'--B\r\nContent-Disposition: form-data; name="text"\r\n\r\nagain\r\n'
        b'--B\r\nContent-Disposition: form-data; name="image"; filename="a \\"b\\".png"\r\n'
        b"Content-Type: image/png\r\n\r\n\x00\r\n\r\n--\xff\r\n--B--\r\n"
    )

    posted = service.post(b"\x00abc")
    uploaded = service.post(form, content_type="multipart/form-data; boundary=B").json

    assert (posted.status, posted.body, posted.header("content-type")) == (418, b"cba\x00", "application/x-mine")
    assert uploaded == {
        "name": 'a "b".png',
        "bytes": list(b"\x00\r\n\r\n--\xff"),
        "form": "hello",
        "all": ["hello", "again"],
        "type": "image/png",
    }
    assert service.get("/score?x=1&y=a%20b").body == b"/score?x=1&y=a%20b"
    assert service.get("/score").body == b"/score?"
    assert service.post(None, method="OPTIONS").body == b"options"
    assert service.post(b'{"a": 1}', content_type="application/json").json == {"a": 1}


def test_other_methods(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    options = service.post(None, method="OPTIONS")
    refused = service.post(b"x", method="PUT")

    assert (options.status, options.body) == (200, b"")
    assert (refused.status, refused.header("allow")) == (405, "GET, POST, OPTIONS")


def test_health_needs_no_key_and_says_healthy(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, auth=True, keys=("0" * 64,))

    answer = service.get("/")

    assert (answer.status, answer.body) == (200, b"Healthy")
    assert service.post(b"x").status == 401


def test_ids_are_echoed_and_made(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        "def init(): pass\ndef run(d, request_headers): return request_headers['x-request-id']",
        server_version="azmlinfsrv/1",
    )

    answer = service.post(b"", x_request_id="mine", x_ms_client_request_id="client", TraceId="t-1")
    made = service.post(b"")
    legacy = service.post(b"", x_ms_request_id="old")

    assert answer.json == "mine"
    assert answer.header("x-request-id") == "mine"
    assert answer.header("x-ms-client-request-id") == answer.header("x-ms-request-id") == "client"
    assert answer.header("TraceId") == "t-1"
    assert answer.header("x-ms-server-version") == "azmlinfsrv/1"
    assert uuid.UUID(made.json).version == 4
    assert made.json == made.header("x-request-id") == made.header("x-ms-request-id")
    assert made.header("x-ms-client-request-id") is None
    assert legacy.header("x-ms-client-request-id") == legacy.header("x-ms-request-id") == "old"


@pytest.mark.parametrize("name", ["x_request_id", "x_ms_request_id", "x_ms_client_request_id"])
def test_an_id_has_at_most_100_characters(gateway: RunningGateway, tmp_path: Path, name: str) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    assert service.post(b"", **{name: "x" * 100}).status == 200
    refused = service.post(b"", **{name: "x" * 101})
    assert refused.status == 431
    assert "100 characters" in refused.json["message"]


def test_the_time_of_run_is_in_a_header(gateway: RunningGateway, tmp_path: Path) -> None:
    script = """
        import time
        def init(): pass
        def run(d):
            began = time.perf_counter()
            time.sleep(0.05)
            return (time.perf_counter() - began) * 1e3
    """
    service = gateway.deploy(tmp_path, script)
    began = time.perf_counter()

    answer = service.post(b"")

    whole_ms = (time.perf_counter() - began) * 1e3
    said = answer.header("x-ms-run-fn-exec-ms")
    assert said is not None and len(said.partition(".")[2]) == 3
    assert answer.json - 0.01 <= float(said) <= whole_ms


@pytest.mark.parametrize("status", [500, 502])
def test_an_error_of_run_stays_in_the_log(gateway: RunningGateway, tmp_path: Path, status: int) -> None:
    service = gateway.deploy(
        tmp_path,
        "def init(): pass\ndef run(d):\n    raise KeyError('hidden ' + d)",
        failure_status=status,
    )

    answer = service.post(b"cause", x_request_id="id-77")

    assert answer.status == status
    assert answer.header("x-ms-run-function-failed") == "True"
    assert answer.header("x-ms-run-fn-exec-ms") is None
    assert "id-77" in answer.json["message"] and "cause" not in answer.json["message"]
    assert "Request id-77 failed" in service.log() and "KeyError: 'hidden cause'" in service.log()


def test_an_answer_that_is_no_json_is_the_scripts_fault(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, "def init(): pass\ndef run(d): return {1, 2} if d else object()")

    assert service.post(b"x").status == 502
    assert "JSON cannot hold" in service.log()


def test_a_script_that_leaves_fails_its_request_alone(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path, "import sys\ndef init(): pass\ndef run(d):\n    return sys.exit(1) if d == 'x' else d"
    )
    (before,) = service.workers()

    assert service.post(b"x").status == 502
    assert service.post(b"y").json == "y"
    assert service.workers()[0]["pid"] == before["pid"]


def test_status_500_of_a_script_is_sent_as_it_is(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        from azureml.contrib.services.aml_response import AMLResponse
        def init(): pass
        def run(d): return AMLResponse("no", 500)
        """,
    )

    answer = service.post(b"")

    assert (answer.status, answer.body) == (500, b"no")
    assert answer.header("x-ms-run-function-failed") == "True"


def test_where_a_script_finds_itself(gateway: RunningGateway, tmp_path: Path) -> None:
    script = """
        import json, os, sys
        import beside, inside
        def init(): pass
        def run(d):
            return {"cwd": os.getcwd(), "data": json.load(open("./source_directory/extradata.json")),
                    "model": os.environ["AZUREML_MODEL_DIR"], "beside": beside.X, "inside": inside.X,
                    "root": os.environ["AML_APP_ROOT"], "token": os.environ.get("RUNYARD_SERVING_TOKEN"),
                    "ours": sorted(n for n in sys.modules if n.split(".")[0] in ("uvicorn", "httptools", "fastapi"))}
    """
    files = {
        "source_directory/extradata.json": '{"a": 1}',
        "source_directory/inside.py": "X = 2",
        "beside.py": "X = 1",
        "json.py": "raise SystemExit('the script folder comes after what we import')",
    }
    service = gateway.deploy(
        tmp_path,
        script,
        "--source-directory",
        "source_directory",
        files=files,
        variables={"AZUREML_MODEL_DIR": "azureml-models/m/1"},
    )

    assert service.post(b"").json == {
        "cwd": str(service.app_root),
        "data": {"a": 1},
        "model": "azureml-models/m/1",
        "beside": 1,
        "inside": 2,
        "root": str(service.app_root),
        "token": None,
        "ours": [],
    }


def test_main_py_is_the_script_where_none_is_named(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path, "", "--entry", "", files={"main.py": "def init(): pass\ndef run(d): return 'main'"}
    )

    assert service.post(b"").json == "main"


def test_swagger_documents(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, variables={"SERVICE_NAME": "diabetes", "SERVICE_PATH_PREFIX": "/p/q"})

    two = service.get("/swagger.json").json
    three, newest = (service.get(f"/swagger.json?version={version}").json for version in ("3", "3.1"))

    assert (two["swagger"], three["openapi"], newest["openapi"]) == ("2.0", "3.0.3", "3.1.0")
    for document in (two, three, newest):
        assert document["info"]["title"] == "diabetes"
        assert set(document["paths"]) == {"/p/q/", "/p/q/score", "/p/q/swagger.json"}
    assert two["definitions"]["ServiceInput"] == {"type": "object", "example": {}}
    assert service.get("/swagger.json?version=2.0").json == two
    assert service.get("/swagger.json?version=4").status == 404


def test_an_own_swagger_file_wins(gateway: RunningGateway, tmp_path: Path) -> None:
    files = {"swagger.json": '{"mine": 2}', "swagger3.json": '{"mine": 3}'}
    service = gateway.deploy(tmp_path, ECHO, files=files)

    assert service.get("/swagger.json").json == {"mine": 2}
    assert service.get("/swagger.json?version=3").json == {"mine": 3}


def test_old_imports_of_joblib(gateway: RunningGateway, tmp_path: Path) -> None:
    files = {"joblib/__init__.py": "X = 5", "sklearn/__init__.py": "", "sklearn/externals/__init__.py": ""}
    service = gateway.deploy(
        tmp_path,
        """
        from sklearn.externals import joblib
        import sklearn.externals.joblib as again
        import joblib as real
        def init(): pass
        def run(d): return [joblib is real is again, joblib.__spec__.name, joblib.X]
        """,
        files=files,
    )

    assert service.post(b"").json == [True, "joblib", 5]
    assert service.log().count("`sklearn.externals.joblib` is gone") == 1


AGED = """
    import warnings
    class InconsistentVersionWarning(UserWarning): pass
    def init():
        for name in ("StandardScaler", "Ridge"):
            text = f"Trying to unpickle estimator {name} from version 0.24.1 when using version 1.5.2. This might lead"
            warnings.warn(text, InconsistentVersionWarning)
        load()
    def load():
        pass
    def run(d): return 1
"""


def test_a_model_of_another_scikit_learn_is_said_once_in_the_log(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, AGED)

    assert service.post(b"").json == 1
    assert service.log().count("runyard: the model (Ridge, StandardScaler) was made by scikit-learn 0.24.1") == 1
    assert "ask for it: scikit-learn==0.24.1\n" in service.log()
    assert "InconsistentVersionWarning" in service.log()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (AGED.replace("        pass\n", "        raise AttributeError('no such method')\n", 1), "scikit-learn==0.24.1"),
        ("def init(): import sklearn.linear_model.ridge\ndef run(d): pass", "which had `sklearn.linear_model.ridge`"),
    ],
    ids=["estimator", "module"],
)
def test_a_model_that_another_scikit_learn_broke_says_so(
    gateway: RunningGateway, tmp_path: Path, script: str, said: str
) -> None:
    files = {"sklearn/__init__.py": "__version__ = '1.5.2'", "sklearn/linear_model/__init__.py": ""}
    service = gateway.deploy(tmp_path, script, files=files, wait=False)

    wait_for(lambda: service.state()["revisions"][0]["failure"], what=service.log)
    assert said in service.state()["revisions"][0]["failure"]


def test_output_of_a_script_is_in_its_log(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        import logging, sys
        def init():
            print("from init")
        def run(d):
            print("from run")
            logging.warning("a warning")
            sys.stdout.write("x" * 10_000_000 + "\\n")
            return 1
        """,
    )

    assert service.post(b"").json == 1
    text = service.log()
    assert "from init\n" in text and "from run\n" in text and "WARNING:root:a warning" in text
    assert len(text) > 10_000_000


def test_a_printed_line_is_in_the_log_at_once(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, "def init(): print('from init')\ndef run(d): print('from run', d)")
    assert service.post(b"x").status == 200

    wait_for(lambda: "from run x\n" in service.log(), timeout_s=20, what=service.log)
    assert service.log().startswith("from init\n")


@pytest.mark.long
def test_a_large_body_reaches_the_script(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        import json
        def init(): pass
        def run(d): return [len(d), sum(json.loads(d)["data"])]
        """,
    )
    body = json.dumps({"data": [1] * 20_000_000}, separators=(",", ":"))

    assert service.post(body).json == [len(body), 20_000_000]


def test_a_body_over_the_limit_is_refused_before_it_is_read(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    refused = service.post(b"", inner=f"/score?{urllib.parse.quote('x')}", content_length=str(101 << 20))

    assert refused.status == 413
    assert "100 MiB" in refused.json["message"]
