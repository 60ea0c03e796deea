import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { releaseKeys } from '../../../src/wire/release-signature.ts';
import { findOrphans } from '../domain/orphans.ts';
import { parsePolicy } from '../domain/policy-file.ts';
import { problemsText, settingProblems } from '../domain/setting-checks.ts';
import { unknownSettings } from '../domain/settings-without-effect.ts';
import { engineOf, findEngineUrl } from '../engines/find.ts';
import { openEngine } from '../engines/open.ts';
import { discoverCdi } from '../machine/cdi.ts';
import {
  exists,
  fileMode,
  fileSystemSize,
  kindOfPath,
  readKernelFile,
  readText,
  removePath,
  writeDurably,
} from '../machine/disk.ts';
import { exchange } from '../machine/http.ts';
import { createLog, errorText } from '../machine/log.ts';
import { processLimits } from '../machine/machine.ts';
import { isAlive } from '../machine/presence.ts';
import { check, failed, warning } from './check.ts';
import type { DoctorContext } from './context.ts';

const MIB = 1024 * 1024;
/** With less free space the agent cannot save its state. */
const LEAST_SPACE = 64 * MIB;

/** Warnings of the agent about what another check looks at. */
const HAS_OWN_CHECK =
  /^(?:container engine|policy|tunnel|position|edge guard): |^settings: .* (?:the agent does not start with it|does not take them while it runs)$/s;
/** Problems of the agent that have a remedy of their own, by their warnings. */
const ALIKE = {
  update: /^update: \S+ failed, \S+ runs: /,
  restart: /^settings: .* effect when the agent starts again$/,
  drained: /^drained: /,
  former: /^former engine: /,
} as const;

/** Interfaces come and go: the agent takes their names as they are. */
const SETTING_FACTS = { hasInterface: () => true, read: readText, kindOf: kindOfPath };

/** Checks of this machine, which need no network. */
export const MACHINE_CHECKS = [
  check({
    name: 'user',
    about: 'whether the doctor may read what the agent has; without that it checks nothing else',
    problems: {
      forbidden: failed('Run this as the user that the agent runs as, usually root.'),
    },
    run: async ({ identity, daemon }: DoctorContext) => {
      if (identity().damaged === 'EACCES')
        return { problem: 'forbidden', what: 'the identity of the agent cannot be read' };
      const view = await daemon();
      return view.state === 'forbidden'
        ? { problem: 'forbidden', what: view.message }
        : { ok: 'its files and its socket' };
    },
  }),
  check({
    name: 'settings',
    about: 'the file of settings',
    problems: {
      unusable: failed('Correct the file; the agent does not start with it.'),
      idle: warning(
        'Correct the value: a running agent does not take the file, and an agent that starts with it goes without the setting.',
      ),
      unknown: warning(
        'Correct the name, or remove the line: the agent ignores it, so that one file can serve several versions.',
      ),
    },
    run({ config, configFile, settingsError }: DoctorContext) {
      if (settingsError !== undefined) return { problem: 'unusable', what: settingsError };
      const wrong = problemsText(settingProblems(config, SETTING_FACTS));
      if (wrong !== '') return { problem: 'idle', what: `${configFile}: ${wrong}` };
      const unknown = unknownSettings(config);
      if (unknown.length > 0) return { problem: 'unknown', what: `${configFile}: ${unknown.join('; ')}` };
      return { ok: exists(configFile) ? configFile : `${configFile} is absent: the defaults hold` };
    },
  }),
  check({
    name: 'policy',
    about: "the machine's own policy",
    problems: {
      unusable: failed(
        'Correct the file, or remove it to allow everything, then: systemctl reload skerry-agent, or SIGHUP to the agent. A running agent keeps the former rules; one that starts with it refuses whatever the file does not plainly allow.',
      ),
    },
    run: ({ config: { policyFile } }: DoctorContext) => {
      try {
        const text = readText(policyFile);
        parsePolicy(text, policyFile);
        return { ok: text === undefined ? 'none: everything is allowed' : policyFile };
      } catch (error) {
        return { problem: 'unusable', what: errorText(error) };
      }
    },
  }),
  check({
    name: 'release-keys',
    about: 'whose releases of the agent this machine installs',
    problems: {
      unusable: warning(
        'Put Ed25519 public keys (PEM) into the file that releaseKeyFile names, or remove the setting. Until then the agent is not ready to upgrade; it takes a new file when it starts.',
      ),
    },
    run: ({ config: { releaseKeyFile } }: DoctorContext) => {
      if (!releaseKeyFile) return { ok: 'none: the agent does not update itself' };
      try {
        const text = readText(releaseKeyFile);
        // The settings of the package name a file that only machines with self-update have.
        if (text === undefined) return { ok: `no file ${releaseKeyFile}: the agent does not update itself` };
        return { ok: `${releaseKeyFile}: ${releaseKeys(text).length}` };
      } catch (error) {
        return { problem: 'unusable', what: `${releaseKeyFile}: ${errorText(error)}` };
      }
    },
  }),
  check({
    name: 'identity',
    about: 'who this node is',
    problems: {
      none: warning(
        'Nothing, where the machine is to be without a controller. Else get a join string from the controller and run: skerry-agent provision <join string>',
      ),
      damaged: failed(
        'Restore the file from a backup, or provision the agent again: at its next start it is set aside, and containers run on.',
      ),
      open: warning('Anybody who can read the file can be this node: chmod 600 it.'),
    },
    run: ({ config: { diskDirectory }, identity }: DoctorContext) => {
      const file = join(diskDirectory, 'identity.json');
      const { identity: known, damaged } = identity();
      if (damaged !== undefined) return { problem: 'damaged', what: `${file} cannot be read: ${damaged}` };
      if (!known?.node) return { problem: 'none', what: 'the agent is not provisioned' };
      const mode = fileMode(file) ?? 0;
      if ((mode & 0o077) !== 0) return { problem: 'open', what: `${file} has mode ${mode.toString(8)}` };
      const { name, uuid, controllerUrl } = known.node;
      return { ok: `node ${name ?? uuid} of ${controllerUrl}` };
    },
  }),
  check({
    name: 'database',
    about: 'what the agent remembers',
    problems: {
      damaged: warning(
        'Restart the agent: it sets the file aside and begins anew from the controller and the containers. Check the disk.',
      ),
      newer: warning('A newer agent wrote it. Install that version again, or let this one begin anew.'),
      unreadable: failed('Run this as the user that the agent runs as, usually root; else check the disk.'),
    },
    run: ({ database }: DoctorContext) => {
      const { state, detail } = database();
      return state === 'ok' || state === 'absent' ? { ok: detail } : { problem: state, what: detail };
    },
  }),
  check({
    name: 'disk',
    about: 'space in diskDirectory, and whether it can be written',
    problems: {
      readonly: failed(
        'Make it writable for the agent: its owner, its mode, or a file system that was mounted read-only after an error (dmesg).',
      ),
      full: failed(
        'Make room: skerry-agent prune removes images that nothing uses; then look for large volumes and logs (du -x).',
      ),
      inodes: failed('The file system has no room for more files: remove some (df -i, find).'),
      low: warning('Make room, or lower availableDiskThreshold: below it the agent prunes its images by itself.'),
    },
    run: ({ config: { diskDirectory, availableDiskThreshold } }: DoctorContext) => {
      const where = exists(diskDirectory) ? diskDirectory : undefined;
      if (!where) return { skipped: `${diskDirectory} is made when the agent starts` };
      const size = fileSystemSize(where);
      const failure = writeFailure(where);
      const free = size ? `${Math.floor(size.available / MIB)} MiB of ${Math.floor(size.total / MIB)} MiB free` : '';
      if (size && size.freeFiles === 0 && size.files > 0) return { problem: 'inodes', what: `${where}: no free inode` };
      if (failure?.code === 'ENOSPC' || failure?.code === 'EDQUOT' || (size && size.available < LEAST_SPACE))
        return { problem: 'full', what: `${where}: ${free}` };
      if (failure) return { problem: 'readonly', what: `${where} cannot be written: ${failure.message}` };
      const percent = size ? (size.available / size.total) * 100 : 100;
      if (percent < availableDiskThreshold)
        return { problem: 'low', what: `${where}: ${free}, less than ${availableDiskThreshold} %` };
      return { ok: `${where}: ${free}` };
    },
  }),
  check({
    name: 'cgroup',
    about: "the kernel's accounting of containers",
    problems: {
      absent: warning(
        'Mount cgroups (they are at /sys/fs/cgroup where systemd runs): without them limits do not hold and usage is not reported.',
      ),
      incomplete: warning(
        'Enable the controllers, on many boards with cgroup_enable=memory cgroup_memory=1 on the kernel command line.',
      ),
    },
    run: async () => {
      const unified = await readKernelFile('/sys/fs/cgroup/cgroup.controllers');
      const listed = unified?.trim() ? unified : await readKernelFile('/proc/cgroups');
      if (!listed) return { problem: 'absent', what: 'no cgroup controllers at /sys/fs/cgroup' };
      const missing = ['cpu', 'memory'].filter((name) => !isEnabled(listed, name));
      const version = listed === unified ? 'v2' : 'v1';
      if (missing.length > 0)
        return { problem: 'incomplete', what: `cgroup ${version} without ${missing.join(' and ')}` };
      return { ok: `${version}, with cpu and memory` };
    },
  }),
  check({
    name: 'limits',
    about: 'open files and processes that containers may be given',
    problems: {
      low: warning('Raise the hard limits of the agent and the engine (LimitNOFILE= and LimitNPROC= of their units).'),
    },
    run: () => {
      const { hard, mayRaise } = processLimits(
        readText('/proc/self/limits') ?? '',
        readText('/proc/self/status') ?? '',
      );
      const low = Object.entries({ nofile: 4096, nproc: 1024 }).filter(([name, least]) => {
        const value = hard[name];
        return value !== undefined && value >= 0 && value < least;
      });
      const told = `open files ${shown(hard.nofile)}, processes ${shown(hard.nproc)}`;
      return low.length > 0 && !mayRaise ? { problem: 'low', what: told } : { ok: told };
    },
  }),
  check({
    name: 'engine',
    about: 'the container engine',
    problems: {
      absent: failed(
        'Start the container engine (systemctl start docker, or podman.socket), or name its socket in containerEngineUrl. Containers that run go on meanwhile.',
      ),
      none: failed(
        "Install the parts of the agent's own engine (apt-get install containerd runc containernetworking-plugins), or docker.io, or podman; then systemctl restart skerry-agent.",
      ),
      silent: failed(
        "The agent's own engine does not answer: systemctl status skerry-containerd says why, systemctl restart skerry-containerd starts it. Containers that run go on meanwhile.",
      ),
      forbidden: failed('Run the agent as root, or as a user that may open the engine socket.'),
      unfit: failed('Update the engine: docker 19.03 or podman 4.0 at least.'),
      rootless: warning('A rootless engine is not supported yet: ports below 1024, devices and limits may not work.'),
    },
    run: async ({ config }: DoctorContext) => {
      const { kind, url, isGuess } = engineOf(config);
      try {
        const engine = openEngine({ url, instance: 'doctor' });
        const { kind: found, version, apiVersion, rootless } = await engine.connect(AbortSignal.timeout(10_000));
        const told = `${found} ${version} (API ${apiVersion}) at ${url}`;
        return rootless ? { problem: 'rootless', what: told } : { ok: told };
      } catch (error) {
        const text = errorText(error);
        const absent = isGuess ? 'none' : kind === 'embedded' ? 'silent' : 'absent';
        const problem = /EACCES/.test(text) ? 'forbidden' : /speaks API/.test(text) ? 'unfit' : absent;
        return { problem, what: text };
      }
    },
  }),
  check({
    name: 'cdi',
    about: 'devices that CDI specifications of this machine describe',
    problems: {
      unreadable: warning('Correct the file, or remove it: containers cannot be given its devices.'),
      unsupported: warning(
        'Update the engine (docker 25, podman 5.4), or give the devices with the field devices. Until then containers run without them, and notHonoured in their status says so.',
      ),
    },
    run: async ({ config, cdiDirectories }: DoctorContext) => {
      const left: string[] = [];
      const log = createLog({ level: 'WARN', write: ({ path, error }) => void left.push(`${path}: ${error}`) });
      const engine = openEngine({ url: findEngineUrl(config), instance: 'doctor' });
      const facts = await engine.connect(AbortSignal.timeout(10_000)).catch(() => undefined);
      const devices = discoverCdi(log)(facts?.cdiDirectories ?? cdiDirectories);
      const listed = devices.slice(0, 20).join(', ');
      if (left.length > 0) return { problem: 'unreadable', what: left.join('; ') };
      if (devices.length === 0) return { skipped: 'there are none' };
      if (facts && !facts.cdi)
        return { problem: 'unsupported', what: `${facts.kind} ${facts.version} gives containers none of ${listed}` };
      return { ok: listed };
    },
  }),
  check({
    name: 'orphans',
    about: 'containers of agents that no longer exist',
    problems: {
      left: warning(
        'They may have ports that others want. An agent that is provisioned again as their node takes them over, as long as it has none of its own; one that is only stopped needs a start. What nobody needs: skerry-agent orphans --remove',
      ),
    },
    run: async ({ config, identity }: DoctorContext) => {
      const instance = identity().identity?.instance;
      if (instance === undefined)
        return { skipped: 'this agent has no identity: which containers are its own is not known' };
      const engine = openEngine({ url: findEngineUrl(config), instance });
      const signal = AbortSignal.timeout(10_000);
      try {
        await engine.connect(signal);
        const found = await findOrphans(engine, isAlive, signal);
        return found.length > 0
          ? { problem: 'left', what: found.map(({ name, application }) => `${name} (${application})`).join(', ') }
          : { ok: 'none' };
      } catch (error) {
        return { skipped: errorText(error) };
      }
    },
  }),
  check({
    name: 'daemon',
    about: 'the agent itself',
    problems: {
      absent: failed('Start it: systemctl start skerry-agent, or without systemd skerry-agent start.'),
      broken: failed('Restart the agent; containers run on. skerry-agent logs may say why.'),
      troubled: warning('See the other checks; the agent tries again by itself.'),
      restart: warning('Start the agent again: systemctl restart skerry-agent. Containers run on.'),
      drained: warning('Start the agent again, and with it the containers: systemctl restart skerry-agent.'),
      former: warning(
        'Start the former engine once more, then systemctl restart skerry-agent; or remove these containers there. Until then they may have ports that others want.',
      ),
      update: warning(
        'The agent does not try it again. The warning ends when a release is installed, when the release that runs or another one is requested, or when the request is withdrawn (annotation skerry.dev/version of the node).',
      ),
    },
    run: async ({ config, daemon }: DoctorContext) => {
      const view = await daemon();
      if (view.state === 'absent') return { problem: 'absent', what: `no agent answers at ${config.socket}` };
      if (view.state !== 'running') return { problem: 'broken', what: view.message };
      const warnings = view.status.warnings.filter((warning) => !HAS_OWN_CHECK.test(warning));
      if (warnings.length === 0) return { ok: `answers at ${config.socket}` };
      const [alike = 'troubled'] = Object.entries(ALIKE).flatMap(([problem, pattern]) =>
        warnings.every((warning) => pattern.test(warning)) ? [problem as keyof typeof ALIKE] : [],
      );
      return { problem: alike, what: warnings.join('; ') };
    },
  }),
  check({
    name: 'port',
    about: 'the loopback port of health and metrics',
    problems: {
      taken: warning(
        'Stop what has the port, or choose another one with localApiPort: health probes and metrics are not served now.',
      ),
      unserved: warning('Restart the agent once the port is free; skerry-agent logs says why it could not bind.'),
    },
    run: async ({ config: { localApiPort }, daemon }: DoctorContext) => {
      if (localApiPort === 0) return { skipped: 'switched off (localApiPort is 0)' };
      const answer = await whoAnswers(localApiPort);
      const runs = (await daemon()).state !== 'absent';
      const at = `127.0.0.1:${localApiPort}`;
      if (answer === 'other') return { problem: 'taken', what: `another program answers at ${at}` };
      if (answer === 'none')
        return runs ? { problem: 'unserved', what: `nothing answers at ${at}` } : { ok: `${at} is free` };
      return { ok: `served at ${at}` };
    },
  }),
];

function writeFailure(directory: string): NodeJS.ErrnoException | undefined {
  const file = join(directory, `.doctor-${randomUUID()}`);
  try {
    writeDurably(file, 'x'.repeat(16 * 1024));
    return undefined;
  } catch (error) {
    return error as NodeJS.ErrnoException;
  } finally {
    removePath(file);
    removePath(`${file}.${process.pid}.tmp`);
  }
}

/** cgroup v2 lists names; v1 has a table whose last column is 1 for an enabled controller. */
const isEnabled = (listed: string, name: string) =>
  listed.includes('#subsys_name')
    ? new RegExp(`^${name}\\s.*\\s1$`, 'm').test(listed)
    : listed.split(/\s+/).includes(name);

const shown = (limit: number | undefined) =>
  limit === undefined ? 'unknown' : limit < 0 ? 'unlimited' : String(limit);

/** Which program listens on the port: an agent, another program, or none. */
async function whoAnswers(port: number): Promise<'agent' | 'other' | 'none'> {
  try {
    const target = { origin: new URL(`http://127.0.0.1:${port}`) };
    const { body } = await exchange({ target, method: 'GET', path: '/health/live', deadline: 5_000 }, 64 * 1024);
    return body.includes('localApiPhase') ? 'agent' : 'other';
  } catch (error) {
    return (error as { code?: string }).code === 'ECONNREFUSED' ? 'none' : 'other';
  }
}
