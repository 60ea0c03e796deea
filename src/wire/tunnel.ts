import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/**
 * The tunnel of a node: a remote forward of an ssh client on the machine, so that a port of an ssh server leads to a port of
 * the machine (docs/spec/agent-channel.md#tunnel). Host and user name become arguments of a program, so their forms have neither a
 * leading dash nor spaces.
 */

/** A host name, IPv4 or IPv6 address of an ssh server. */
export const TUNNEL_HOST = /^([A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:]{2,45})$/;
/** A user of an ssh server. */
export const TUNNEL_USERNAME = /^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$/;

const port = z.number().int().min(1).max(65535);
const material = z.string().max(BOUNDS.tunnelMaterial).default('');

/** What a node gets of its tunnel. A closed one has no key and no password. */
const tunnelViewSchema = z.object({
  host: z.string().regex(TUNNEL_HOST),
  /** ours: port of the ssh server */
  port: port.default(22),
  username: z.string().regex(TUNNEL_USERNAME),
  /** port of the ssh server that leads to the machine */
  remotePort: port,
  /** port of the machine */
  localPort: port.default(22),
  /** private key, in the form of OpenSSH or PEM, of any type */
  rsaKey: material,
  password: material,
  /** ours: host keys of the ssh server, in the form of known_hosts */
  knownHosts: material,
  closed: z.boolean().default(false),
});
export type TunnelView = z.infer<typeof tunnelViewSchema>;

/** Response of `GET /agent/tunnel`, which has the same members beside `tunnel` for older agents. */
export const tunnelReplySchema = z.object({ tunnel: tunnelViewSchema });

/** What an agent says of its tunnel: `tunnelStatus` of a report, as JSON text. */
export const TUNNEL_STATES = ['opening', 'open', 'closed', 'failed'] as const;
export interface TunnelReport {
  status: (typeof TUNNEL_STATES)[number];
  /** why it failed, for people */
  message?: string;
}

/** `tunnelStatus` of a report: JSON text, or an object, which becomes one. */
export const tunnelStatusSchema = z
  .preprocess(
    (value) => (typeof value === 'object' && value !== null ? JSON.stringify(value) : value),
    z.string().max(BOUNDS.tunnelStatus),
  )
  .optional();
