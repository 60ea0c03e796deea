import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { checkServerIdentity, connect, type PeerCertificate, rootCertificates } from 'node:tls';
import { isForbidden, isTransient } from '../../../src/kube/api-error.ts';
import { startDeadline } from '../../../src/kube/deadline.ts';
import type { KubeObject, Resource } from '../../../src/kube/object.ts';
import { line } from '../../../src/terminal/safe.ts';
import type { CommandContext } from './command.ts';
import {
  PODS,
  type ReplicaPod,
  type ReplicaTls,
  replicasOf,
  SERVICE,
  SERVICES,
  selectorOf,
} from './controller-pods.ts';
import { CommandError, UnreachableError, UsageError } from './errors.ts';

/**
 * The way to a controller whose address is not known: a port-forward to one of its pods, through the API server. Its streams
 * carry sessions themselves, so that no port of this machine is open.
 */
export interface Forward {
  /** host and port for a URL */
  host: string;
  /**
   * A connection to a replica, with TLS where it serves TLS. Rejects with an UnreachableError where another attempt may succeed, and
   * with the reason of the signal of the command.
   */
  connect(): Promise<Duplex>;
}

/** ms until a connection has to stand; replicas that are tried for one. */
const [CONNECT_MS, TRIED] = [10_000, 3];
const NEXT_STEP = 'name the controller with --controller or $SKERRY_CONTROLLER';

interface Secret extends KubeObject {
  data?: Record<string, string>;
}
const SECRETS: Resource<Secret> = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret', namespaced: true };

/** Finds the controller in the namespace of the cluster. `ca` is the authority of its certificate, else the cluster's word for it counts. */
export async function forwardTo(context: CommandContext, ca?: string): Promise<Forward> {
  const { cluster, signal } = context;
  const { namespace } = cluster;
  let known: readonly ReplicaPod[] | undefined = await findReplicas(context);
  let authority: Authority | Promise<Authority> = ca;
  /** Once a connection has ended, which may be that of a pod that ends. */
  const forget = () => {
    known = undefined;
    authority = ca;
  };

  async function dial({ pod, port, tls }: ReplicaPod): Promise<Duplex> {
    using deadline = startDeadline(CONNECT_MS, signal);
    const connection = await cluster.openPort(pod, port, deadline.signal);
    connection.once('close', forget);
    if (!tls) return connection;
    authority ??= authorityOf(context, tls);
    return await secured(connection, {
      names: namesOf(namespace, tls),
      authority: await authority,
      signal: deadline.signal,
    });
  }

  return {
    host: `${SERVICE}.${namespace}.svc`,
    async connect() {
      let problem: unknown;
      known ??= await findReplicas(context);
      for (const replica of inAnyOrder(known).slice(0, TRIED)) {
        try {
          return await dial(replica);
        } catch (error) {
          signal.throwIfAborted();
          if (error instanceof CommandError) throw error;
          if (isForbidden(error)) throw new CommandError(notPermitted(error));
          problem = error;
        }
      }
      forget();
      throw new UnreachableError(
        `no pod of the controller takes a connection: ${line((problem as Error).message)}; it may end or begin at present, else ${NEXT_STEP}`,
      );
    },
  };
}

async function findReplicas({
  cluster: { client, namespace },
  signal,
}: CommandContext): Promise<readonly ReplicaPod[]> {
  try {
    const service = await client.find(SERVICES, { namespace, name: SERVICE }, { signal });
    if (!service)
      throw new UsageError(
        `the address of the controller is not known, and the namespace "${namespace}" has no Service ${SERVICE} to forward a port of: ${NEXT_STEP}, or its namespace with -n`,
      );
    const labelSelector = selectorOf(service);
    const { items } = await client.listPage(PODS, { namespace, labelSelector, signal });
    const replicas = replicasOf(service, items);
    if (replicas.length > 0) return replicas;
    throw new UnreachableError(
      `no pod of the controller is ready in the namespace "${namespace}", of ${items.length}: "kubectl -n ${namespace} get pods -l ${labelSelector}" has them; else ${NEXT_STEP}`,
    );
  } catch (error) {
    if (isForbidden(error)) throw new CommandError(notPermitted(error));
    if (isTransient(error)) throw new UnreachableError((error as Error).message);
    throw error;
  }
}

const notPermitted = ({ message }: Error) =>
  `the address of the controller is not known, and its port may not be forwarded: ${line(message)}; ` +
  `${NEXT_STEP}, or ask for the ClusterRole edit of Kubernetes in this namespace`;

/** Users share the replicas. */
const inAnyOrder = <T>(all: readonly T[]): T[] =>
  all
    .map((one) => ({ one, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);

/** The names that a certificate of the controller may have: those of the Service, and that under which agents reach it. */
const namesOf = (namespace: string, { publicHost }: ReplicaTls): string[] => [
  `${SERVICE}.${namespace}.svc`,
  `${SERVICE}.${namespace}.svc.cluster.local`,
  `${SERVICE}.${namespace}`,
  ...(publicHost === undefined ? [] : [publicHost]),
];

/** PEM; undefined for the authorities that this machine knows. */
type Authority = string | string[] | undefined;

/**
 * The authority of the certificate, as the Secret of the chart has it: the key that the chart names, else what is in the chain,
 * beside those of the world. Undefined where the user may not read Secrets: then those of the world count.
 */
async function authorityOf(
  { cluster: { client, namespace }, signal }: CommandContext,
  { secret }: ReplicaTls,
): Promise<Authority> {
  if (!secret) return undefined;
  try {
    const { data = {} } = await client.get(SECRETS, { namespace, name: secret.name }, { signal });
    const pem = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString('latin1');
    if (secret.authority !== undefined) return pem(secret.authority);
    return [...rootCertificates, pem('tls.crt')];
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}

interface Trust {
  names: readonly string[];
  authority: Authority;
  signal: AbortSignal;
}

/** TLS over a connection. Throws a CommandError for a certificate that is not accepted. */
async function secured(connection: Duplex, { names, authority, signal }: Trust): Promise<Duplex> {
  const [name = ''] = names;
  const socket = connect({
    ...{ socket: connection, servername: name },
    ...(authority !== undefined && { ca: authority }),
    checkServerIdentity: (_, certificate: PeerCertificate) => {
      const problems = names.map((one) => checkServerIdentity(one, certificate));
      return problems.includes(undefined) ? undefined : problems[0];
    },
  });
  // TLS over a stream that is no socket of the system sees neither its error nor, in the handshake, its end.
  const follow = () => socket.destroy(connection.errored ?? new Error('the connection was closed'));
  connection.once('error', follow).once('close', follow);
  if (connection.destroyed) follow();
  try {
    await once(socket, 'secureConnect', { signal });
    connection.off('close', follow);
    return socket;
  } catch (error) {
    connection.destroy();
    socket.destroy();
    throw signal.aborted ? signal.reason : certificateError(error as NodeJS.ErrnoException, names);
  }
}

/** Codes of OpenSSL for a chain that does not lead to an authority that is known. */
const UNKNOWN_AUTHORITY = /SELF_SIGNED|UNABLE_TO_(?:GET_ISSUER|VERIFY)/;

function certificateError(error: NodeJS.ErrnoException, names: readonly string[]): Error {
  const { code = '', message } = error;
  if (UNKNOWN_AUTHORITY.test(code))
    return new CommandError(
      `the authority of the controller's certificate is not known (${code}): name the file of its certificate with --ca`,
    );
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return new CommandError(
      `the controller's certificate has none of the names ${names.join(', ')}: add one, or ${NEXT_STEP} under a name that it has`,
    );
  if (code.startsWith('CERT_'))
    return new CommandError(`the controller's certificate is not accepted: ${message} (${code})`);
  return error;
}
