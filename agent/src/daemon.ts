import type { Server } from 'node:http';
import { join } from 'node:path';
import { AGENT_BRIDGE_HOST } from '../../src/api/names.ts';
import { sleep } from '../../src/lib/clock.ts';
import type { Log } from '../../src/lib/log.ts';
import type { AgentConfig } from '../../src/wire/agent.ts';
import { releaseKeys } from '../../src/wire/release-signature.ts';
import { createAgent } from './app.ts';
import { Artifacts } from './content/artifacts/artifacts.ts';
import { Projections } from './content/artifacts/projection.ts';
import { ArtifactStore } from './content/artifacts/store.ts';
import type { AgentDependencies } from './dependencies.ts';
import { AgentError } from './domain/agent-error.ts';
import { type Config, ConfigError, parseConfig } from './domain/config.ts';
import { parsePolicy, strictestReading } from './domain/policy-file.ts';
import { problemsText, settingProblems } from './domain/setting-checks.ts';
import { settingsNotInForce } from './domain/settings-in-force.ts';
import { settingsWithoutEffect } from './domain/settings-without-effect.ts';
import { cleanFormerEngine, startWithEngine } from './engines/change.ts';
import { ENGINE_SOCKETS } from './engines/choose.ts';
import { EMBEDDED } from './engines/embedded/machine/places.ts';
import { socketOf } from './engines/find.ts';
import { openEngine } from './engines/open.ts';
import { fetchAuthority } from './link/trust.ts';
import { localArtifactSchema } from './local/artifacts.ts';
import { localRegistrySchema } from './local/registries.ts';
import { localRowSchema } from './local/row.ts';
import { localRuntimeClassSchema } from './local/runtime-classes.ts';
import { changeProfile, changeSettings } from './local-api/routes/settings/change-settings.ts';
import { installCertificate } from './local-api/routes/settings/controller-certificate.ts';
import { ControlChannels } from './local-api/routes/workload/control-channels.ts';
import { localApi } from './local-api/routes.ts';
import { serveBridge } from './local-api/server/bridge.ts';
import { answers, listenOnLoopback, listenOnSocket } from './local-api/server/server.ts';
import { ADMIN_TOKEN_SECONDS, AdminToken } from './local-api/server/token.ts';
import { discoverCdi } from './machine/cdi.ts';
import { systemClock } from './machine/clock.ts';
import { directoryProblem, roomProblem } from './machine/data-directory.ts';
import { holdDirectory } from './machine/directory-lock.ts';
import {
  fileIdentity,
  followLinks,
  kindOfPath,
  locate,
  makeDirectory,
  mountedPlaces,
  mountsBelow,
  readText,
} from './machine/disk.ts';
import { bufferedSink, createLog, errorText } from './machine/log.ts';
import { type LogFileLimits, logFileWriter } from './machine/log-files.ts';
import { localMachine, ownAddresses } from './machine/machine.ts';
import { filesOnDisk } from './machine/mounted-files.ts';
import { mountsInUse } from './machine/mounts.ts';
import { ownContainerId } from './machine/own-container.ts';
import { ownLogReader } from './machine/own-log.ts';
import { isPortTaken } from './machine/port-probe.ts';
import { isAlive, showAlive } from './machine/presence.ts';
import { readDevice } from './machine/receiver.ts';
import { serviceManager } from './machine/service-manager.ts';
import { programsOnDisk } from './machine/started-programs.ts';
import { watchUnhandled } from './machine/unhandled.ts';
import { watchText } from './machine/watch-text.ts';
import { askForPosition } from './position/look-up.ts';
import { identityFile } from './state/identity.ts';
import { LocalAuthority } from './state/local-authority.ts';
import { revocationListSchema } from './state/revocations.ts';
import { openRows } from './state/rows.ts';
import { openSqliteDatabase } from './state/sqlite-database.ts';
import { prepareMounts } from './supervise/executors/mounts.ts';
import { sshClient } from './tunnel/ssh-client.ts';
import { PROGRAM_VARIABLE, Program } from './update/program.ts';

/** In memory on most machines, and root's. */
const RUN = '/run';

/** Engine sockets that no container may ever bind. */
const FOREIGN_SOCKETS = [
  '/run/containerd/containerd.sock',
  '/run/docker/containerd/containerd.sock',
  '/run/crio/crio.sock',
];

/**
 * Runs the agent of this machine until the signal fires, or until it has to start again: builds the real dependencies of app.ts and serves the local API.
 * Each step needs the steps before it; they are closed in reverse order.
 */
export async function runDaemon(file: string, stopSignal: AbortSignal): Promise<'stopped' | 'restart'> {
  let text = readText(file);
  let config = parseConfig(text, file);
  // A reload changes the settings of the agent in place.
  const started = { ...config };
  const clock = systemClock();
  let logSettings: Pick<AgentConfig, 'logLimit' | 'logFileCount'> = config;
  const toFile = config.logDirectory
    ? logFileWriter(config.logDirectory, () => logLimits(logSettings), tellOfLogTrouble)
    : () => {};
  const sink = bufferedSink(config.logLevel, 1000, (line) => {
    process.stderr.write(line);
    toFile(line);
  });
  const log = createLog(sink, () => clock.wall());
  const warnOfIdleSettings = () => {
    const problems = settingsWithoutEffect(config);
    if (problems.length > 0) log.warn({ file, problems }, 'The file of settings has what does nothing');
  };
  warnOfIdleSettings();
  const stopping = new AbortController();
  let restarts = false;
  const signal = AbortSignal.any([stopSignal, stopping.signal]);

  if (await answers(config.socket))
    throw new AgentError('CONFLICT', `another agent answers at ${config.socket}; stop it first`);
  using closing = new DisposableStack();
  closing.use(holdDirectory(config.diskDirectory, log));
  // Before there is a database, which speaks for an agent of an earlier version.
  const { url: engineUrl, left: formerEngine } = startWithEngine(config, log);
  const databaseFile = join(config.diskDirectory, 'agent.db');
  const { database, setAside } = openSqliteDatabase(databaseFile, clock.wall(), [config.runDirectory, RUN]);
  closing.use(database);
  if (setAside) log.warn({ setAside }, 'The database was damaged; the agent began a new one');
  const problem = database.problem();
  if (problem) log.error({ error: problem }, 'Nothing can be saved; what runs is looked after');

  // An agent that does not start would leave its machine without supervision.
  const { policy, problem: unreadable } = strictestReading(() => readText(config.policyFile), config.policyFile);
  if (unreadable)
    log.error({ error: unreadable }, 'The policy cannot be read; what it does not plainly allow is refused');
  let policyIsPartial = unreadable !== undefined;
  /** Reads the file each time: the next start depends on it, and it may have become invalid without a SIGHUP. */
  const policyTroubles = (): string[] => {
    const { problem } = strictestReading(() => readText(config.policyFile), config.policyFile);
    const now = policyIsPartial ? 'what it does not plainly allow is refused' : 'the former rules stay';
    if (problem) return [`policy: ${problem}; ${now}`];
    return policyIsPartial
      ? ['policy: the file can be read again; systemctl reload skerry-agent (SIGHUP) makes the agent take it']
      : [];
  };

  const machine = localMachine(config.diskDirectory);
  const facts = {
    hasInterface: (name: string) => machine.addresses(name) !== undefined,
    read: readText,
    kindOf: kindOfPath,
  };
  const localRows = (kind: string) => join(config.diskDirectory, 'local', kind);
  const engineSocket = socketOf(engineUrl);
  let formerEngineProblem: string | undefined;
  let controllerCa = authorityIn(config, log);
  const authority = new LocalAuthority({
    file: join(config.diskDirectory, 'local-api.json'),
    host: AGENT_BRIDGE_HOST,
    ...{ wall: clock.wall, log },
  });
  const agent = createAgent(config, {
    clock,
    random: Math.random,
    log,
    engine: (instance) =>
      openEngine({ url: engineUrl, instance, self: ownContainerId(), bridgeCidr: config.bridgeCidr }),
    database,
    identity: identityFile(join(config.diskDirectory, 'identity.json'), clock.wall, (path) =>
      log.error({ setAside: path }, 'The identity could not be read and was set aside; provision the agent again'),
    ),
    ownMicroservices: openRows(localRows('microservices'), localRowSchema),
    localRegistries: openRows(localRows('registries'), localRegistrySchema),
    localArtifacts: {
      models: openRows(localRows('models'), localArtifactSchema),
      knowledge: openRows(localRows('knowledge'), localArtifactSchema),
    },
    localRuntimeClasses: openRows(localRows('runtime-classes'), localRuntimeClassSchema),
    machine,
    policy,
    fileProblems: () =>
      [
        ...settingsNotInForce({ read: () => readText(file), wasThere: text !== undefined, facts }, started),
        ...policyTroubles(),
        formerEngineProblem,
        directoryProblem(config.diskDirectory),
        roomProblem(config.diskDirectory),
      ].filter((each) => each !== undefined),
    protectedPaths: protectedPaths(config, engineSocket),
    places: {
      ...{ follow: followLinks, identity: fileIdentity, mountsBelow, locate },
      mountedPlaces: engineSocket ? mountedPlaces : () => [],
    },
    prepareMounts: (spec, group) => prepareMounts(spec, group, join(config.diskDirectory, 'volumes')),
    mountsInUse,
    mountedFiles: filesOnDisk(join(config.diskDirectory, 'volumes')),
    artifacts: (needs) =>
      new Artifacts({
        ...needs,
        store: new ArtifactStore(join(config.diskDirectory, 'artifacts')),
        projections: new Projections(join(config.diskDirectory, 'volumes')),
      }),
    revocations: openRows(join(config.diskDirectory, 'tokens'), revocationListSchema),
    apiAuthority: () => (config.localApiPort > 0 ? authority.certificate : undefined),
    // Ports can be probed only on the machine of the engine.
    portTaken: engineSocket ? isPortTaken : undefined,
    cdiDevices: discoverCdi(log),
    ownAddresses,
    setLogging: (level, settings) => {
      sink.level = level;
      logSettings = settings;
    },
    controllerCa: () => controllerCa,
    fetchAuthority,
    readDevice: (path, signal) => readDevice(path, signal, clock),
    lookUp: askForPosition,
    isAlive,
    restart: () => {
      restarts = true;
      stopping.abort();
    },
    updates: updatesOf(config, log),
    ownLog: ownLogReader(sink, config.logDirectory),
    ssh: sshClient(join(config.diskDirectory, 'tunnel')),
    programs: programsOnDisk(join(config.diskDirectory, 'programs')),
    instanceChanged: (instance) => {
      shown.close();
      shown = showAlive(instance);
    },
  });
  closing.use(watchUnhandled(process, { log, count: () => agent.metrics.add('unhandledRejections') }));
  let shown = showAlive(agent.identity.instance);
  closing.defer(() => shown.close());
  const adminToken = new AdminToken(config.tokenFile, agent);

  const readWhole = (path: string) => {
    try {
      return readText(path);
    } catch (error) {
      throw new ConfigError(`${path} cannot be read: ${errorText(error)}`, { cause: error });
    }
  };
  const reload = () => {
    const read = readWhole(file);
    // An agent that starts without a file has the defaults; a file that a running agent has read was not meant to be its end.
    if (read === undefined && text !== undefined) throw new ConfigError(`${file} is not there any more`);
    const settings = parseConfig(read, file);
    const wrong = settingProblems(settings, facts);
    if (Object.keys(wrong).length > 0) throw new ConfigError(`${file}: ${problemsText(wrong)}`);
    const policy = parsePolicy(readWhole(settings.policyFile), settings.policyFile);
    const ca = authorityIn(settings, log);
    const isTrustOther = settings.secureMode !== config.secureMode || ca !== controllerCa;
    [text, config, controllerCa] = [read, settings, ca];
    policyIsPartial = false;
    Object.assign(agent.config, config);
    agent.setPolicy(policy);
    agent.settingsChanged({ isTrustOther });
    log.info({}, 'Read the settings again');
    warnOfIdleSettings();
  };
  const writer = { file, facts, agent, reload };
  const channels = closing.use(new ControlChannels(agent));
  const ports = {
    clock,
    log,
    api: localApi({
      ...{ agent, adminToken, channels },
      changeSettings: (set: Record<string, unknown>) => changeSettings(set, writer),
      switchProfile: (profile) => changeProfile(profile, writer),
      installCertificate: (certificate) =>
        installCertificate(certificate, { config, changeSettings: (set) => changeSettings(set, writer) }),
      reload,
      stop: () => {
        // After the answer.
        setImmediate(() => stopping.abort());
        return config.shutdownPolicy;
      },
      phase: () => phaseOf(opened),
    }),
  };
  // Before a container starts that has the same ports and volumes.
  if (formerEngine)
    formerEngineProblem = await cleanFormerEngine(formerEngine, {
      ...{ config, log },
      open: (url) => openEngine({ url, instance: agent.identity.instance, self: ownContainerId() }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(FORMER_ENGINE_PATIENCE)]),
    });
  const servers: Server[] = [];
  const opened: Opened = {};
  const served = await serveSocket();
  opened.port = config.localApiPort === 0 || (await serveLoopback());
  const onHangup = () => {
    try {
      reload();
    } catch (error) {
      log.error({ error: errorText(error) }, 'The settings were not taken; the former ones stay');
      agent.changed();
    }
  };
  process.on('SIGHUP', onHangup);
  const renewal = new AbortController();
  const onChange = () => {
    // A command that changes the file has taken it already.
    if (readText(file) !== text) onHangup();
  };
  void watchText(file, onChange, renewal.signal, clock);
  void keepServing(served, renewal.signal);
  const bridge = { port: config.localApiPort, certificates: authority, address: () => agent.supervisor.gateway };
  if (config.localApiPort > 0) void serveBridge(bridge, ports, renewal.signal);
  const service = closing.use(serviceManager(process.env, log));
  service.ready();
  const run = new AbortController();
  try {
    const running = agent.run(run.signal);
    await Promise.race([running, aborted(signal)]);
    if (!restarts) await endContainers();
    run.abort();
    await running;
  } finally {
    run.abort();
    process.off('SIGHUP', onHangup);
    renewal.abort();
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
    const fate = config.shutdownPolicy === 'drain-all' && !restarts ? 'containers were stopped' : 'containers run on';
    log.info({}, `${restarts ? 'Starting again' : 'Stopped'}; ${fate}`);
  }
  return restarts && !stopSignal.aborted ? 'restart' : 'stopped';

  /** What the settings say about containers when the agent is stopped; one that starts again lets them run. */
  async function endContainers(): Promise<void> {
    const { shutdownPolicy, shutdownGracePeriodSeconds } = config;
    agent.stopping();
    if (shutdownPolicy !== 'drain-all') return;
    const milliseconds = shutdownGracePeriodSeconds * 1000;
    service.stopping(milliseconds + END_PATIENCE);
    try {
      await agent.drain(milliseconds);
    } catch (error) {
      log.error({ error: errorText(error) }, 'The containers were not stopped');
    }
  }

  /** Opens the socket, or renews the admin token. The agent continues when the disk cannot be written. */
  async function serveSocket(): Promise<boolean> {
    try {
      makeDirectory(config.runDirectory, 0o755);
      adminToken.write();
      if (!opened.socket) servers.push(await listenOnSocket(config.socket, config.runDirectory, ports));
      opened.socket = true;
      return true;
    } catch (error) {
      opened.socket ??= false;
      log.warn({ socket: config.socket, error: errorText(error) }, 'Cannot serve the local API');
      return false;
    }
  }

  async function serveLoopback(): Promise<boolean> {
    try {
      servers.push(await listenOnLoopback(config.localApiPort, authority, ports));
      return true;
    } catch (error) {
      log.warn({ port: config.localApiPort, error: errorText(error) }, 'Cannot serve health and metrics');
      return false;
    }
  }

  async function keepServing(wentWell: boolean, until: AbortSignal): Promise<void> {
    for (let well = wentWell; !until.aborted; well = until.aborted || (await serveSocket()))
      await sleep((well ? ADMIN_TOKEN_SECONDS * 0.8 : 30) * 1000, until, clock);
  }
}

/** ms that the containers on a former engine have to end. */
const FORMER_ENGINE_PATIENCE = 60_000;

/** Whether the socket and the port of the local API are open; absent: the agent has not come so far. The socket is tried again. */
interface Opened {
  socket?: boolean;
  port?: boolean;
}

function phaseOf({ socket, port }: Opened): 'initializing' | 'listening' | 'failed' {
  if (socket === undefined || port === undefined) return 'initializing';
  return socket && port ? 'listening' : 'failed';
}

/** What an agent needs beside the time of its containers when it ends, ms. */
const END_PATIENCE = 30_000;

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** The further authority for the controller's certificate; an agent without it still looks after its containers. */
function authorityIn({ controllerCert }: Config, log: Log): string | undefined {
  try {
    return controllerCert && readText(controllerCert);
  } catch (error) {
    log.error({ file: controllerCert, error: errorText(error) }, 'The authority of the controller cannot be read');
    return undefined;
  }
}

/** The program directory that this agent was started from, and whose releases it accepts. */
function updatesOf(config: Config, log: Log): AgentDependencies['updates'] {
  const directory = process.env[PROGRAM_VARIABLE];
  if (!directory) return undefined;
  const program = new Program(directory);
  try {
    const pem = config.releaseKeyFile && readText(config.releaseKeyFile);
    return { program, keys: pem ? releaseKeys(pem) : [] };
  } catch (error) {
    log.error({ error: errorText(error) }, 'The release keys cannot be read; there will be no update');
    return { program, keys: [] };
  }
}

const GIB = 1024 ** 3;

function logLimits({
  logLimit = 10,
  logFileCount = 10,
}: Pick<AgentConfig, 'logLimit' | 'logFileCount'>): LogFileLimits {
  return { total: logLimit * GIB, files: Math.max(1, logFileCount) };
}

/** Written to stderr only, since the log files do not work. */
function tellOfLogTrouble(error: unknown): void {
  const entry = { timestamp: new Date().toISOString(), level: 'WARN', message: 'Cannot write the log files' };
  process.stderr.write(`${JSON.stringify({ ...entry, error: errorText(error) })}\n`);
}

function protectedPaths(config: Config, engineSocket: string | undefined): string[] {
  const sockets = [
    ...(engineSocket ? [engineSocket] : []),
    ...Object.values(ENGINE_SOCKETS).flat(),
    ...FOREIGN_SOCKETS,
  ];
  const ownEngine = [EMBEDDED.root, EMBEDDED.state];
  const program = process.env[PROGRAM_VARIABLE] ?? import.meta.dirname;
  const own = [config.diskDirectory, config.runDirectory, config.file, config.policyFile, import.meta.dirname, program];
  return [...new Set([...sockets, ...ownEngine, ...own].map(followLinks))];
}
