import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/** What controller and agent agree on about the server of the message bus on a node. */

/** Sets of the system's files of a node with a server. */
export const BUS_SETS = {
  /** what the server reads: its configuration, tokens of accounts, credentials of its links */
  config: 'bus-config',
  /** the user by which the agent tells the server */
  system: 'bus-system',
  certificate: 'bus-server',
  mqttCertificate: 'bus-mqtt-server',
} as const;

/** Files of these sets. */
export const BUS_FILES = {
  config: 'server.conf',
  /** another content of it replaces the container: what no reload changes */
  start: 'start',
  credentials: 'system.creds',
  /** certificates by which the agent knows the server; absent: the server has no TLS for clients */
  ca: 'ca.crt',
} as const;

/** Where the container has them. */
export const BUS_PLACES = {
  root: '/etc/nats',
  config: '/etc/nats/config',
  certificates: '/etc/nats/certs',
  data: '/data',
} as const;

/** What a report says of the server: whether it has all that the files here say, and what keeps it from that. */
export const busServerReportSchema = z.object({
  isCurrent: z.boolean(),
  problem: z.string().max(BOUNDS.message).optional(),
});

const TOKENS = /^tokens-[A-Z2-7]\.conf$/;

/** The file with the token of an account: lines of `<public key>: "<token>"`, as the server reads them. */
export const tokensFile = (publicKey: string): string => `tokens-${publicKey.slice(-1)}.conf`;
export const isTokensFile = (path: string): boolean => TOKENS.test(path);

/** The tokens of a file, by the public key of their account. */
export const tokensIn = (text: string): Map<string, string> =>
  new Map([...text.matchAll(/^(A[A-Z2-7]{55}): "([\w.-]+)"$/gm)].map(([, key = '', token = '']) => [key, token]));
