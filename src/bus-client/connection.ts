import type { Msg, NatsConnection } from 'nats';
import { untilAborted } from '../lib/until-aborted.ts';
import { BUS_REQUESTS } from '../rules/bus-requests.ts';
import { type BusTls, busTlsOptions } from './tls.ts';

/** What the clients of a server's system account may ask it: by these the tokens of accounts reach a running server. */
export interface BusConnection {
  /** the server at the other end; its id is another one after each start */
  readonly server: { readonly name: string; readonly id: string };
  /** Resolves when the connection has ended, for whatever reason. */
  readonly closed: Promise<void>;
  /**
   * Makes the server replace the token of an account, and every server of its cluster. Resolves when the server at the other end has
   * it; rejects with its refusal. The server takes an older token as well: the caller compares.
   */
  push(jwt: string, signal: AbortSignal): Promise<void>;
  /**
   * The tokens that the servers of the cluster have, by the public key of their account: of these accounts, and of all others that a
   * server has. One text of each server, in no order; undefined for a server that has no token of the account.
   */
  tokens(accounts: Iterable<string>, signal: AbortSignal): Promise<Map<string, readonly (string | undefined)[]>>;
  /** Makes the server at the other end read its configuration again; rejects with its refusal, after which it works on as before. */
  reload(signal: AbortSignal): Promise<void>;
  /** Tags in the configuration that the server at the other end has read. */
  tags(signal: AbortSignal): Promise<readonly string[]>;
  /** Public keys of the operators whose tokens the server at the other end takes, from its start to its end. */
  operators(signal: AbortSignal): Promise<readonly string[]>;
  /** Ends the connection; never rejects. */
  close(): Promise<void>;
}

export interface BusClientOptions {
  /** URLs of one server */
  servers: readonly string[];
  /** text of the credentials of a user of the system account */
  creds: string;
  /** absent: the server has no TLS for clients */
  tls?: BusTls;
  /** as which the server knows the connection */
  name: string;
  signal: AbortSignal;
}

const CONNECT_MS = 5_000;
const REPLY_MS = 5_000;
/** A server that answers no ping for this long, twice, is disconnected. */
const PING_MS = 5_000;
/** Servers of a cluster answer together: after this without a reply, no other one has the request. */
const QUIET_MS = 250;
const LOOK_UPS_AT_ONCE = 64;
/** Of the tokens of all accounts that a server has. */
const MOST_BYTES = 256 * 2 ** 20;

/**
 * Connects once, within 5 s, and never by itself again: whoever holds a connection that ended has to compare all tokens anyway.
 * Rejects with the reason of the refusal, or of the signal.
 */
export async function connectBus({ servers, creds, tls, name, signal }: BusClientOptions): Promise<BusConnection> {
  signal.throwIfAborted();
  // Loaded with the first connection: it takes two MiB, and most agents have no bus server.
  const { connect, createInbox, credsAuthenticator } = await import('nats');
  signal.throwIfAborted();
  const made = connect({
    servers: [...servers],
    name,
    authenticator: credsAuthenticator(new TextEncoder().encode(creds)),
    timeout: CONNECT_MS,
    reconnect: false,
    ignoreClusterUpdates: true,
    pingInterval: PING_MS,
    ...(tls && { tls: busTlsOptions(servers, tls) }),
  });
  const connection = await untilAborted(made, signal, () => void made.then((late) => late.close()).catch(() => {}));
  return new SystemConnection(connection, createInbox());
}

interface Waiting {
  take(reply: Msg): void;
  fail(error: Error): void;
}

class SystemConnection implements BusConnection {
  readonly server: { readonly name: string; readonly id: string };
  readonly closed: Promise<void>;
  readonly #connection: NatsConnection;
  readonly #inbox: string;
  readonly #waiting = new Map<string, Waiting>();
  #count = 0;

  constructor(connection: NatsConnection, inbox: string) {
    this.#connection = connection;
    this.#inbox = inbox;
    const { server_id: id = '', server_name: name = '' } = connection.info ?? {};
    this.server = { name, id };
    this.closed = connection.closed().then(() => {
      for (const { fail } of this.#waiting.values())
        fail(new Error(`The connection to the bus server "${name}" ended`));
    });
    connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, reply) => void (error ?? this.#waiting.get(reply.subject)?.take(reply)),
    });
  }

  push(jwt: string, signal: AbortSignal): Promise<void> {
    return this.#ask(BUS_REQUESTS.update, jwt, signal, (reply, { done }) => {
      const { server, error } = reply.json<UpdateReply>();
      // Each server of the cluster answers.
      if (server?.id !== this.server.id) return;
      if (error) throw new TokenRefused(`The bus server "${this.server.name}" refuses a token: ${refusalOf(error)}`);
      done();
    });
  }

  reload(signal: AbortSignal): Promise<void> {
    return this.#ask(BUS_REQUESTS.ofServer(this.server.id, 'RELOAD'), '', signal, (reply, { done }) => {
      const { error } = reply.json<UpdateReply>();
      if (error) throw new Error(`The bus server "${this.server.name}" does not reload: ${refusalOf(error)}`);
      done();
    });
  }

  async tags(signal: AbortSignal): Promise<readonly string[]> {
    let tags: readonly string[] = [];
    await this.#ask(BUS_REQUESTS.ofServer(this.server.id, 'STATSZ'), '', signal, (reply, { done }) => {
      tags = reply.json<UpdateReply>().server?.tags ?? [];
      done();
    });
    return tags;
  }

  async operators(signal: AbortSignal): Promise<readonly string[]> {
    let keys: readonly unknown[] = [];
    await this.#ask(BUS_REQUESTS.ofServer(this.server.id, 'VARZ'), '', signal, (reply, { done }) => {
      keys = (reply.json<VarzReply>().data?.trusted_operators_claim ?? []).map(({ sub }) => sub);
      done();
    });
    return keys.filter((key) => typeof key === 'string').slice(0, MOST_OPERATORS);
  }

  async tokens(accounts: Iterable<string>, signal: AbortSignal): Promise<Map<string, (string | undefined)[]>> {
    const lists: ListReply[] = [];
    await this.#gather(BUS_REQUESTS.list, signal, (reply) => {
      lists.push(reply.json<ListReply>());
      return false;
    });
    const all = [...new Set([...accounts, ...lists.flatMap(({ data }) => data ?? [])])];
    const tokens = new Map<string, (string | undefined)[]>();
    let bytes = 0;
    const lookUp = async (account: string) => {
      const texts: (string | undefined)[] = [];
      tokens.set(account, texts);
      await this.#gather(BUS_REQUESTS.lookUp(account), signal, ({ data }) => {
        const text = data.length > 0 ? new TextDecoder().decode(data) : undefined;
        const known = texts.find((one) => one === text);
        if (known === undefined) bytes += data.length;
        if (bytes > MOST_BYTES) throw new Error(`The bus has more than ${MOST_BYTES} bytes of tokens`);
        texts.push(known ?? text);
        return texts.length >= lists.length;
      });
    };
    const next = all.values();
    await Promise.all(
      Array.from({ length: LOOK_UPS_AT_ONCE }, async () => {
        for (const account of next) await lookUp(account);
      }),
    );
    return tokens;
  }

  async close(): Promise<void> {
    await this.#connection.close().catch(() => {});
  }

  /** Gives `take` the replies of all servers, until it returns true or no further one comes. */
  #gather(subject: string, signal: AbortSignal, take: (reply: Msg) => boolean): Promise<void> {
    return this.#ask(subject, '', signal, (reply, { done, doneIfQuiet }) => (take(reply) ? done() : doneIfQuiet()));
  }

  /** Publishes a request and gives `take` each reply until one of the functions that it gets has ended it. */
  async #ask(subject: string, body: string, signal: AbortSignal, take: (reply: Msg, end: End) => void): Promise<void> {
    signal.throwIfAborted();
    const inbox = `${this.#inbox}.${this.#count++}`;
    let timer: NodeJS.Timeout | undefined;
    const replies = new Promise<void>((resolve, reject) => {
      const late = () => reject(new Error(`The bus server "${this.server.name}" did not answer within ${REPLY_MS} ms`));
      timer = setTimeout(late, REPLY_MS);
      const doneIfQuiet = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, QUIET_MS);
      };
      const receive = (reply: Msg) => {
        try {
          take(reply, { done: resolve, doneIfQuiet });
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.set(inbox, { take: receive, fail: reject });
      this.#connection.publish(subject, body, { reply: inbox });
    });
    try {
      await untilAborted(replies, signal);
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(inbox);
    }
  }
}

/** The server does not take this token; others may be fine. */
export class TokenRefused extends Error {}

/** How a request ends: now, or when no further reply comes for a while. */
interface End {
  done(): void;
  doneIfQuiet(): void;
}

interface ListReply {
  /** public keys of accounts */
  data?: string[];
}

interface UpdateReply {
  server?: { id?: string; tags?: string[] };
  error?: { code?: number; description?: string };
}

interface VarzReply {
  data?: { trusted_operators_claim?: { sub?: unknown }[] };
}

/** A server of somebody else may trust operators of its own as well. */
const MOST_OPERATORS = 16;
const MOST_OF_REFUSAL = 256;
const refusalOf = ({ code, description }: NonNullable<UpdateReply['error']>) =>
  `${description ?? 'no reason'} (${code ?? 'no code'})`.slice(0, MOST_OF_REFUSAL);
