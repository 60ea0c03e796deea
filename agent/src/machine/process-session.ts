import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const GRACE = 2_000;
const LOOK_EVERY = 50;

/**
 * Ends a program and the processes of its session: with a hangup, as when a terminal is closed, and after a grace by force.
 * Only processes beside `neighbour` are touched: a number may belong to another process by now, or be that of another machine.
 */
export async function endProgram(pid: number, neighbour: number): Promise<void> {
  const left = () => members(pid).filter((each) => isBeside(each, neighbour));
  signalAll(left(), 'SIGHUP');
  for (let waited = 0; waited < GRACE; waited += LOOK_EVERY) {
    if (left().length === 0) return;
    await sleep(LOOK_EVERY);
  }
  signalAll(left(), 'SIGKILL');
}

function signalAll(pids: readonly number[], signal: 'SIGHUP' | 'SIGKILL'): void {
  for (const pid of pids)
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended meanwhile.
    }
}

/** A process, and those of the session that it leads. */
function members(leader: number): number[] {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return pids.filter((pid) => pid === leader || sessionOf(pid) === leader);
}

/** The fourth field after the name, which is in parentheses and may have any characters. Dead ones that wait are gone. */
function sessionOf(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [, , , session] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return Number(session);
  } catch {
    return undefined;
  }
}

/**
 * Whether a process is in the container of another one, which this process is not in: it sees the same files. The unit of the agent lets it
 * see that of few processes; of all others the control group says it.
 */
function isBeside(pid: number, neighbour: number): boolean {
  const files = [pid, neighbour].map(filesOf);
  const isSeen = files.every((each) => each !== undefined);
  const [own, other, place] = isSeen ? [filesOf(process.pid), ...files] : [process.pid, pid, neighbour].map(groupOf);
  return place !== undefined && other === place && other !== own;
}

/** Which files a process sees; undefined when there is no such process, or it may not be looked at. */
function filesOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

function groupOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'utf8');
  } catch {
    return undefined;
  }
}
