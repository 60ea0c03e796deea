import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import { readResponses } from '../domain/desired.ts';
import { isLoopback } from '../domain/reference.ts';
import { ControllerClient, ControllerError } from '../link/client.ts';
import { systemClock } from '../machine/clock.ts';
import { plainHost } from '../machine/http.ts';
import { errorText } from '../machine/log.ts';
import { signingKey } from '../state/token.ts';
import { check, type Found, failed, warning } from './check.ts';
import { authorities, type DoctorContext, type Reached } from './context.ts';
import type { DaemonStatus } from './daemon.ts';

const DAY = 86_400_000;
/** Tokens are signed in the controller's time; certificates and schedules of people are not. */
const CLOCK_WARNING = 60_000;
/** A clock before this time, when the program was written, is wrong. */
const EARLIEST = Date.UTC(2026, 0, 1);
const NOT_YET = 'the agent is not provisioned, and no controllerUrl is set';

const CERTIFICATE_PROBLEMS = {
  expired: failed('Renew the certificate of the controller. Workloads run on meanwhile.'),
  future: failed("Set this machine's clock (see the check clock), or wait: the certificate becomes valid later."),
  clock: failed(
    "Set this machine's clock (see the check clock): at the time of the controller its certificate is valid.",
  ),
  unknown: failed(
    'Put the PEM of its authority into the file that controllerCert names, or provision with a join string that has ca=sha256:...',
  ),
  name: failed('Provision with a name that the certificate has, or issue one that has this name (subjectAltName).'),
  other: failed('Check the certificate chain that the controller serves.'),
  none: failed('The controller does not speak TLS there: check port and scheme of its URL.'),
  soon: warning('Renew the certificate of the controller before it ends.'),
  unverified: warning('secureMode is off: anybody between here and the controller can be it. Switch it on.'),
  plain: warning(
    'Anybody on the way can read what runs here with its secrets, and say what is to run. Serve TLS, and provision with a join string that has tls=1.',
  ),
};
type CertificateProblem = keyof typeof CERTIFICATE_PROBLEMS;

/** Checks of the network to the controller and the registries. */
export const NETWORK_CHECKS = [
  check({
    name: 'tunnel',
    about: 'the tunnel that the controller asked for',
    problems: {
      failed: warning(
        'The message says where to look: the ssh client of this machine, its policy (tunnel), the Secret of the tunnels, or the ssh server. The agent tries again by itself.',
      ),
    },
    async run({ daemon }: DoctorContext) {
      const view = await daemon();
      if (view.state !== 'running') return { skipped: 'no running agent says whether there is one' };
      const { status, message = 'the agent does not say why' } = view.status.tunnel ?? {};
      if (status === 'failed') return { problem: 'failed', what: message };
      return status === undefined ? { skipped: 'none was asked for' } : { ok: status };
    },
  }),
  check({
    name: 'names',
    about: 'name resolution of the controller and the registries',
    problems: {
      controller: failed('Check /etc/resolv.conf and the network, or the name in the join string.'),
      registry: warning(
        'Check the name of the registry (REST or kubectl) and /etc/resolv.conf: images of it cannot be pulled.',
      ),
    },
    run: async (context: DoctorContext) => {
      const url = context.controllerUrl();
      const hosts = [...new Set(registryHosts(context))].slice(0, 20);
      const failures = new Map<string, string>();
      await Promise.all(
        [...(url ? [plainHost(url)] : []), ...hosts].map(async (host) => {
          const failure = await resolveFailure(host);
          if (failure) failures.set(host, failure);
        }),
      );
      const own = url && failures.get(plainHost(url));
      if (url && own)
        return { problem: 'controller', what: `the controller's name ${plainHost(url)} does not resolve: ${own}` };
      const unknown = hosts.filter((host) => failures.has(host));
      if (unknown.length > 0) {
        const what = unknown.map((host) => `the registry's name ${host} does not resolve: ${failures.get(host)}`);
        return { problem: 'registry', what: what.join('; ') };
      }
      const all = [...(url ? [plainHost(url)] : []), ...hosts];
      return all.length > 0 ? { ok: all.join(', ') } : { skipped: 'no names are known yet' };
    },
  }),
  check({
    name: 'certificate',
    about: "the controller's certificate",
    problems: CERTIFICATE_PROBLEMS,
    run: async (context: DoctorContext) => {
      const url = context.controllerUrl();
      if (!url) return { skipped: NOT_YET };
      if (url.protocol !== 'https:')
        return isLoopback(url.hostname)
          ? { skipped: `${url.origin} is not TLS, and is this machine` }
          : { problem: 'plain', what: `${url.origin} is another machine, reached without TLS` };
      return judgeCertificate(context, url);
    },
  }),
  check({
    name: 'controller',
    about: 'whether the controller answers',
    problems: {
      silent: failed(
        'Check the way there: address, port, firewall, proxy. Workloads run on meanwhile, and the agent tries again by itself.',
      ),
      hangs: failed(
        'The way there is open: look at the controller itself, and at a proxy or load balancer before it. Workloads run on meanwhile.',
      ),
      store: failed(
        "The way there is open: the controller waits for its API server. Look there (kubectl get --raw /readyz) and at the controller's log. Workloads run on meanwhile.",
      ),
      busy: warning('The controller answers, and is not ready yet; wait, then look at its log.'),
      other: failed('Something else answers at this address: check the URL in the join string.'),
    },
    run: async (context: DoctorContext) => {
      const url = context.controllerUrl();
      if (!url) return { skipped: NOT_YET };
      const said = await context.controllerStatus();
      if (said.state === 'silent') return SILENCES[said.reached](`${url.origin}: ${said.message}`);
      if (said.status === 503 && said.body.includes('CONTROLLER_DB_UNAVAILABLE'))
        return { problem: 'store', what: `${url.origin} answers 503: its API server does not answer` };
      if (said.status === 503) return { problem: 'busy', what: `${url.origin} answers 503` };
      if (said.status !== 200 || said.offset === undefined)
        return { problem: 'other', what: `${url.origin} answers ${said.status}, and not as a controller does` };
      return { ok: url.origin };
    },
  }),
  check({
    name: 'clock',
    about: "this machine's clock",
    problems: {
      wrong: failed(
        'Set the clock, and keep it right: timedatectl set-ntp true, or a battery for the clock of the board.',
      ),
      off: warning(
        'Synchronise the clock (timedatectl, chrony): the agent speaks in the time of the controller, but logs and certificates do not.',
      ),
    },
    run: async (context: DoctorContext) => {
      const now = context.wall();
      if (now < EARLIEST) return { problem: 'wrong', what: `it says ${new Date(now).toISOString()}` };
      const said = context.controllerUrl() ? await context.controllerStatus() : undefined;
      if (said?.state !== 'answers' || said.offset === undefined)
        return { ok: `${new Date(now).toISOString()}, with nobody to compare with` };
      const seconds = Math.round(said.offset / 100) / 10;
      const told = `${Math.abs(seconds)} s ${seconds >= 0 ? 'behind' : 'ahead of'} the controller`;
      if (Math.abs(said.offset) > DAY) return { problem: 'wrong', what: told };
      return Math.abs(said.offset) > CLOCK_WARNING ? { problem: 'off', what: told } : { ok: told };
    },
  }),
  check({
    name: 'authorisation',
    about: 'whether the controller knows this node',
    problems: {
      refused: failed(
        'The node was deleted or provisioned elsewhere. Workloads run on. To join again: skerry-agent provision with a new join string, which keeps them; skerry-agent deprovision would remove them.',
      ),
      unknown: warning('See the checks before this one.'),
    },
    run: async (context: DoctorContext) => {
      if (!context.identity().identity?.node) return { skipped: 'the agent is not provisioned' };
      const view = await context.daemon();
      return view.state === 'running' ? connectionOfDaemon(view.status) : askAsNode(context);
    },
  }),
];

/** Taken from the running agent, so that no second client uses its identity. */
function connectionOfDaemon({
  controllerConnection,
  connectionError = '',
  lastContact,
}: DaemonStatus): Found<'refused' | 'unknown'> {
  if (controllerConnection === 'OK') return { ok: `last contact ${lastContact ?? 'just now'}` };
  const what = `${controllerConnection}${connectionError && `: ${connectionError}`}`;
  return { problem: controllerConnection === 'UNAUTHORIZED' ? 'refused' : 'unknown', what };
}

async function askAsNode(context: DoctorContext): Promise<Found<'refused' | 'unknown'>> {
  const { identity } = context.identity();
  if (!identity?.node || !identity.nodeKey) return { skipped: 'there is no key to ask with' };
  const { node, nodeKey, instance } = identity;
  const ca = authorities(context);
  const client = new ControllerClient({
    controllerUrl: node.controllerUrl,
    ...(ca && { ca }),
    insecure: !context.config.secureMode,
    instance,
    boot: 'doctor',
    clock: systemClock(),
    node: { uuid: node.uuid, key: signingKey(nodeKey) },
  });
  try {
    await client.ping(AbortSignal.timeout(10_000));
    await client.document('/agent/config', AbortSignal.timeout(10_000));
    return { ok: `as ${node.name ?? node.uuid}` };
  } catch (error) {
    const refused = error instanceof ControllerError && error.connection === 'UNAUTHORIZED';
    const code = error instanceof ControllerError && error.code ? ` (${error.code})` : '';
    return { problem: refused ? 'refused' : 'unknown', what: `${errorText(error)}${code}` };
  } finally {
    client.close();
  }
}

const SILENCES: Readonly<Record<Reached, (what: string) => { problem: 'silent' | 'hangs' | 'store'; what: string }>> = {
  nothing: (what) => ({ problem: 'silent', what }),
  connection: (what) => ({ problem: 'hangs', what: `${what}, although a connection opens` }),
  process: (what) => ({ problem: 'store', what: `${what} to /status; the process itself answers` }),
};

const BY_CODE: readonly [RegExp, CertificateProblem][] = [
  [/CERT_HAS_EXPIRED/, 'expired'],
  [/CERT_NOT_YET_VALID/, 'future'],
  [/ALTNAME/, 'name'],
  [/SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)/, 'unknown'],
];

async function judgeCertificate(context: DoctorContext, url: URL): Promise<Found<CertificateProblem>> {
  const shown = await context.certificate();
  if (shown.state === 'none') {
    // Another check reports a host that does not answer.
    const said = await context.controllerStatus();
    return said.state === 'silent' &&
      /ECONNREFUSED|TIMEOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN/.test(said.code)
      ? { skipped: 'the controller does not answer' }
      : { problem: 'none', what: `${url.origin}: ${shown.message}` };
  }
  const { subject, issuer, names, validFrom, validTo, error } = shown;
  const period = `valid from ${iso(validFrom)} to ${iso(validTo)}; it is ${iso(context.wall())} here`;
  if (!context.config.secureMode) return { problem: 'unverified', what: 'the certificate is not verified' };
  if (error) {
    const said = BY_CODE.find(([pattern]) => pattern.test(error.code))?.[1] ?? 'other';
    const problem = isOfClock(said, shown, await timeOfController(context)) ? 'clock' : said;
    const tellings: Partial<Record<CertificateProblem, string>> = {
      clock: period,
      expired: period,
      future: period,
      name: `it is for ${names || subject}, not for ${plainHost(url)}`,
      unknown: `it was issued by "${issuer}", which nothing here vouches for (${error.code})`,
    };
    return { problem, what: tellings[problem] ?? error.message };
  }
  // A tenth of its lifetime, at most two weeks, since short-lived certificates are renewed late on purpose.
  const left = validTo - context.wall();
  if (left < Math.min(14 * DAY, (validTo - validFrom) / 10))
    return { problem: 'soon', what: `it ends ${iso(validTo)}, in ${Math.floor(left / DAY)} days` };
  return { ok: `"${subject}" by "${issuer}", until ${iso(validTo)}` };
}

/** Whether a certificate that is refused for its time is valid at the time of the controller. */
const isOfClock = (
  problem: CertificateProblem,
  { validFrom, validTo }: { validFrom: number; validTo: number },
  time: number | undefined,
): boolean =>
  (problem === 'expired' || problem === 'future') && time !== undefined && validFrom <= time && time < validTo;

/** Unix ms; undefined where the controller does not say it. */
async function timeOfController(context: DoctorContext): Promise<number | undefined> {
  const said = await context.controllerStatus();
  return said.state === 'answers' && said.offset !== undefined ? context.wall() + said.offset : undefined;
}

const iso = (ms: number) => new Date(ms).toISOString();

/** Hosts of the registries that some microservice of this node uses. */
function registryHosts({ database }: DoctorContext): string[] {
  const { microservices, registries = [] } = readResponses(database().responses).sent;
  const used = new Set([...(microservices?.views.values() ?? [])].map(({ registryId }) => registryId));
  // The local cache has no host name, and nothing is pulled from it.
  const wanted = [...registries].filter(([id]) => used.has(id) && id !== BUILT_IN_REGISTRIES.local.id);
  return wanted.flatMap(([, { url }]) => {
    const text = url.includes('://') ? url : `https://${url}`;
    return url !== '' && URL.canParse(text) && new URL(text).hostname !== '' ? [plainHost(new URL(text))] : [];
  });
}

async function resolveFailure(host: string): Promise<string | undefined> {
  if (isIP(host)) return undefined;
  try {
    await lookup(host);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? errorText(error);
  }
}
