"""Blocking client against a real daemon."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sinew_client import (
    AlreadyRan,
    ApprovalPending,
    CallCancelled,
    ConnectionLost,
    Control,
    DaemonUnavailable,
    Failed,
    Progress,
    ProtocolError,
    Refused,
    Sinew,
)
from sinew_client.pytest_plugin import SinewDaemon


def wait_for(what: str, condition, seconds: float = 20.0):  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")


def processes_with(word: str) -> list[str]:
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in line:
            lines.append(line)
    return lines


def test_outputs_are_typed(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    written = sinew.call("write_file", path="a.txt", content="hello\n")
    assert written["created"] is True
    assert written["path"] == str(sinew_daemon.workspace / "a.txt")
    size: int = sinew.call("read_file", path="a.txt")["size"]
    assert size == 6
    assert sinew.call("read_file", {"path": "a.txt"})["content"] == "hello\n"
    result = sinew.execute("read_file", {"path": "a.txt"})
    assert result["success"] and result["metadata"]["mode"] == "NORMAL"


def test_refusal_has_code_rule_and_repair(sinew: Sinew) -> None:
    with pytest.raises(Refused) as refused:
        sinew.call("read_file", path="/etc/shadow")
    assert refused.value.code == "path_forbidden"
    rule = refused.value.rule
    assert rule is not None and rule["file"].endswith("tools.yaml")
    assert refused.value.repair is None and not refused.value.retryable
    sinew.call("write_file", path="a.txt", content="hello\n")
    with pytest.raises(Refused) as misspelt:
        sinew.call("read_file", {"pth": "a.txt"})
    assert misspelt.value.code == "invalid_arguments"
    repair = misspelt.value.repair
    assert repair is not None and repair["arguments"] == {"path": "a.txt"}
    assert misspelt.value.problems


def test_auto_repair_repeats_the_call_once(sinew: Sinew) -> None:
    sinew.call("write_file", path="a.txt", content="hello\n")
    repairing = sinew.with_options(auto_repair=True)
    output = repairing.call("read_file", {"pth": "a.txt"})
    assert output["content"] == "hello\n"
    with pytest.raises(Refused):
        repairing.call("read_file", path="/etc/shadow")


def test_failure_is_not_a_refusal(sinew: Sinew) -> None:
    with pytest.raises(Failed) as failed:
        sinew.call("read_file", path="missing.txt")
    assert failed.value.call_id
    assert "missing.txt" in str(failed.value)


def test_request_errors_are_raised_with_their_data(sinew: Sinew) -> None:
    with pytest.raises(ProtocolError) as wrong:
        sinew.request("sinew/execute", {"tool_name": 1, "arguments": {}})
    assert wrong.value.code == -32602 and wrong.value.data["field"] == "tool_name"


def test_progress_arrives_before_the_result(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    sinew_daemon.workspace.joinpath("lines.txt").write_text("one\ntwo\n")
    notes: list[Progress] = []
    output = sinew.with_options(on_progress=notes.append).call("run_command", command=["cat", "lines.txt"])
    assert output["stdout"] == "one\ntwo\n"
    assert notes and [note.step for note in notes] == sorted(note.step for note in notes)


def test_callback_that_raises_ends_its_own_call_only(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    name = f"followed-{time.monotonic_ns()}.txt"
    sinew_daemon.workspace.joinpath(name).write_text("one\n")

    def callback(progress: object) -> None:
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        sinew.with_options(on_progress=callback).call("run_command", command=["tail", "-f", name])
    wait_for("the end of tail", lambda: not processes_with(name), seconds=5)
    assert sinew.call("run_command", command=["true"])["exit_code"] == 0, "the connection still works"


def test_cancel_ends_the_process(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    name = f"followed-{time.monotonic_ns()}.txt"
    sinew_daemon.workspace.joinpath(name).write_text("one\n")
    pending = sinew.start("run_command", command=["tail", "-f", name])
    wait_for("the start of tail", lambda: processes_with(name))
    assert not pending.done()
    pending.cancel()
    with pytest.raises(CallCancelled):
        pending.result()
    wait_for("the end of tail", lambda: not processes_with(name), seconds=5)
    assert sinew.call("run_command", command=["true"])["exit_code"] == 0, "the connection still works"


def test_idempotency_key_runs_once(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    once = sinew.with_options(idempotency_key="append-1")
    once.call("write_file", path="log.txt", content="x\n", mode="append")
    with pytest.raises(AlreadyRan) as repeated:
        once.call("write_file", path="log.txt", content="x\n", mode="append")
    assert repeated.value.succeeded and repeated.value.repeat["of"]
    assert sinew_daemon.workspace.joinpath("log.txt").read_text() == "x\n"


def test_session_enforces_allowlist_and_budget(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    sinew_daemon.workspace.joinpath("a.txt").write_text("x")
    with sinew.session(["read_file"], hop_budget=2) as worker:
        assert worker.opened["accepted"] == ["read_file"]
        with pytest.raises(Refused) as outside:
            worker.call("write_file", path="a.txt", content="hello")
        assert outside.value.code == "not_in_allowlist"
        worker.turn()
        worker.call("read_file", path="a.txt")
        worker.call("read_file", path="a.txt")
        with pytest.raises(Refused) as spent:
            worker.call("read_file", path="a.txt")
        assert spent.value.code == "hop_budget_exhausted"
        assert worker.turn()["remaining"]["hops"] == 2
        socket = worker.socket
    with pytest.raises(DaemonUnavailable):
        Sinew(socket, connect_timeout=0.1).__enter__()


def test_approval_is_requested_and_awaited(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    with Control(home=sinew_daemon.home) as control:
        control.request("control/mode.set", {"mode": "ALERT", "reason": "test"})
        with pytest.raises(ApprovalPending) as pending:
            sinew.with_options(approval="async").call("write_file", path="a.txt", content="hello")
        assert [waiting["id"] for waiting in control.approvals()] == [pending.value.approval_id]
        control.deny(pending.value.approval_id, message="not today")
        approval = sinew.request_approval("write_file", path="b.txt", content="hello")
        assert approval.id is not None
        answered = threading.Timer(0.3, lambda: control.approve(str(approval.id)))
        answered.start()
        assert approval.result()["created"] is True
        answered.join()
        denied = sinew.request_approval("write_file", path="c.txt", content="hello")
        control.deny(str(denied.id), message="not today")
        with pytest.raises(Refused) as refused:
            denied.result()
        assert refused.value.code == "approval_denied" and "not today" in str(refused.value)
    assert not sinew_daemon.workspace.joinpath("c.txt").exists()


def test_call_with_a_key_survives_a_killed_daemon(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    sinew.status()
    sinew_daemon.kill()
    restarted = threading.Timer(0.3, sinew_daemon.start)
    restarted.start()
    output = sinew.with_options(idempotency_key="after-restart").call("write_file", path="a.txt", content="hello")
    restarted.join()
    assert output["size"] == 5
    assert sinew.call("read_file", path="a.txt")["content"] == "hello", "other calls use the new connection"


def test_call_without_a_key_is_not_sent_twice(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    name = f"followed-{time.monotonic_ns()}.txt"
    sinew_daemon.workspace.joinpath(name).write_text("one\n")
    pending = sinew.start("run_command", command=["tail", "-f", name])
    wait_for("the start of tail", lambda: processes_with(name))
    sinew_daemon.kill()
    with pytest.raises(ConnectionLost):
        pending.result(timeout=20)


def test_detached_call_ends_without_its_client(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    """A detached call goes on while its client is away, and the key gets its outcome."""
    with Control(home=sinew_daemon.home) as control:
        control.request("control/mode.set", {"mode": "ALERT", "reason": "test"})
        with Sinew(home=sinew_daemon.home, cwd=str(sinew_daemon.workspace), detached=True) as first:
            key = first.start("write_file", path="a.txt", content="hello").idempotency_key
            waiting = wait_for("the request", control.approvals)
        control.approve(waiting[0]["id"])
        wait_for("the file", lambda: sinew_daemon.workspace.joinpath("a.txt").exists())
        assert key is not None, "a detached call without a key gets one"
        again = sinew.with_options(idempotency_key=key).execute("write_file", {"path": "a.txt", "content": "hello"})
        repeat = again["metadata"].get("repeat")
        assert again["success"] and repeat is not None and repeat["outcome"] == "done"


def test_name_is_shown_and_has_its_own_keys(sinew_daemon: SinewDaemon) -> None:
    def client(name: str) -> Sinew:
        return Sinew(home=sinew_daemon.home, name=name, cwd=str(sinew_daemon.workspace), idempotency_key="job-1")

    with client("nightly") as one, client("weekly") as two:
        for s in (one, two):
            result = s.execute("write_file", {"path": "log.txt", "content": "x", "mode": "append"})
            assert result["success"] and result["metadata"].get("repeat") is None
        assert one.execute("write_file", {"path": "log.txt", "content": "x", "mode": "append"})["metadata"].get("repeat")
        with Control(home=sinew_daemon.home) as control:
            control.request("control/mode.set", {"mode": "ALERT", "reason": "test"})
            two.with_options(idempotency_key="job-2").start("write_file", path="a.txt", content="hello")
            waiting = wait_for("the request", control.approvals)
            assert "weekly" in waiting[0]["caller"]
            control.deny(waiting[0]["id"])
    assert sinew_daemon.workspace.joinpath("log.txt").read_text() == "xx"


def test_explain_runs_nothing(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    explained = sinew.explain("write_file", {"path": "a.txt", "content": "hello"})
    assert explained["verdict"] == "permit"
    assert sinew.explain("read_file", {"path": "/etc/shadow"})["verdict"] == "deny"
    assert not sinew_daemon.workspace.joinpath("a.txt").exists()


def test_missing_daemon_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnavailable, match="sinew serve"):
        Sinew(home=tmp_path, connect_timeout=0.1).__enter__()


def test_orchestrator_of_the_readme_runs(sinew_daemon: SinewDaemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    readme = Path(__file__).parents[1].joinpath("README.md").read_text()
    found = re.search(r"```python\n(from sinew_client import.*?)```", readme, re.DOTALL)
    assert found is not None
    sinew_daemon.workspace.joinpath("plan.md").write_text("step one\n")
    monkeypatch.setenv("SINEW_HOME", str(sinew_daemon.home))
    source = found.group(1).replace('"plan.md"', repr(str(sinew_daemon.workspace / "plan.md")))
    exec(compile(source, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["step one 9", "step one 9"]
    assert lines[2].startswith("path_forbidden ")
    assert lines[3] == "{'hops': 5}"
