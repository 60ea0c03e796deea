/** The ssh server of an installation, over which machines open tunnels; the user runs it. */
export interface TunnelSettings {
  /** as machines reach it */
  host: string;
  port: number;
  username: string;
  /** remote ports that tunnels may have, both included */
  ports: { first: number; last: number };
  /** port of the machines that tunnels lead to */
  localPort: number;
  /** name of the Secret with its keys, in the namespace of the controller; absent: none is set */
  secretName?: string;
}

/** The ssh server with what a machine needs to log in. */
export interface TunnelServer extends Omit<TunnelSettings, 'ports' | 'secretName'> {
  rsaKey: string;
  password: string;
  knownHosts: string;
  /** changes with the key, the password and the host keys, and says nothing about them */
  identity: string;
}

/** The tunnels of an installation, as look-ups know them. */
export interface Tunnels {
  settings: TunnelSettings;
  /** The ssh server, or what its Secret lacks, in words of the fix. */
  server(): TunnelServer | { problem: string };
}

/** What an installation without an ssh server says when a tunnel is asked for. */
export const NO_TUNNEL_SERVER =
  'this controller knows no ssh server for tunnels; set TUNNEL_HOST, TUNNEL_USERNAME and SKERRY_TUNNEL_SECRET (tunnel.* of the chart)';

/** Text by key of the Secret, and an opaque text that changes with it. */
interface SecretText {
  data: Readonly<Record<string, string>>;
  identify?(): string;
}

/** The keys of the Secret. */
const KEYS = 'rsaKey (a private key) or password, and knownHosts (the host keys of the ssh server)';

/** The ssh server with the keys of its Secret. A Secret that microservices may use is refused: any of them could mount the key. */
export function tunnelServer(
  settings: TunnelSettings,
  secret: { isShareable: boolean; text: SecretText } | undefined,
): TunnelServer | { problem: string } {
  const { host, port, username, localPort, secretName } = settings;
  if (secretName === undefined) return { problem: `SKERRY_TUNNEL_SECRET is not set: a Secret with ${KEYS}` };
  if (!secret) return { problem: `there is no Secret ${secretName}; create it with ${KEYS}` };
  if (secret.isShareable)
    return {
      problem: `the Secret ${secretName} is shareable, so that microservices could use it; create it without this label`,
    };
  const { rsaKey = '', password = '', knownHosts = '' } = secret.text.data;
  if (rsaKey === '' && password === '') return { problem: `the Secret ${secretName} has neither rsaKey nor password` };
  if (knownHosts.trim() === '')
    return {
      problem: `the Secret ${secretName} has no knownHosts: the host keys of ${host}, as ssh-keyscan prints them`,
    };
  const identity = secret.text.identify?.() ?? '';
  return { host, port, username, localPort, rsaKey, password, knownHosts, identity };
}
