import { argon2, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

/** Argon2id hashes as PHC text: `$argon2id$v=19$m=19456,t=2,p=1$salt$tag`. */

interface Cost {
  memory: number;
  passes: number;
  parallelism: number;
}

const COST: Cost = { memory: 19_456, passes: 2, parallelism: 1 };
const TAG_BYTES = 32;
export const SALT_BYTES = 16;

interface ParsedHash extends Cost {
  salt: Buffer;
  tag: Buffer;
}

const PHC =
  /^\$argon2id\$v=19\$m=([0-9]{1,7}),t=([0-9]{1,2}),p=([0-9]{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{16,86})$/;
/** Costs beyond these are of no hash that we wrote, and would stop the process. */
const MOST: Cost = { memory: 65_536, passes: 10, parallelism: 4 };

/** Undefined for text that is no hash, and for a hash that costs too much. */
export function parsedHash(text: string): ParsedHash | undefined {
  const [, m, t, p, salt = '', tag = ''] = PHC.exec(text) ?? [];
  const [memory, passes, parallelism] = [Number(m), Number(t), Number(p)];
  const isBounded =
    memory >= 8 * parallelism &&
    memory <= MOST.memory &&
    passes >= 1 &&
    passes <= MOST.passes &&
    parallelism >= 1 &&
    parallelism <= MOST.parallelism;
  if (!isBounded) return undefined;
  return { memory, passes, parallelism, salt: Buffer.from(salt, 'base64'), tag: Buffer.from(tag, 'base64') };
}

const base64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '');

const run = promisify(argon2) as (
  algorithm: 'argon2id',
  options: { message: string; nonce: Buffer; tagLength: number } & Cost,
) => Promise<Buffer>;

const tagOf = (password: string, salt: Buffer, { memory, passes, parallelism }: Cost, tagLength: number) =>
  run('argon2id', { message: password, nonce: salt, memory, passes, parallelism, tagLength });

/** The hash of a password with a new salt. */
export async function hashPassword(password: string, salt: Buffer): Promise<string> {
  const tag = await tagOf(password, salt, COST, TAG_BYTES);
  const { memory, passes, parallelism } = COST;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`;
}

export async function isHashOf(password: string, { salt, tag, ...cost }: ParsedHash): Promise<boolean> {
  return timingSafeEqual(await tagOf(password, salt, cost, tag.length), tag);
}
