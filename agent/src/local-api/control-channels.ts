import type { LocalApiAgent } from './agent.ts';
import { CLOSE, type WebSocketConnection } from './websocket.ts';

/** First byte of each message (docs/spec/agent-local-api.md#control-channel). */
const MESSAGES = { ping: 0x9, pong: 0xa, configChanged: 0xc, limitsChanged: 0xf } as const;

const PING_EVERY = 30_000;

interface Channel {
  connection: WebSocketConnection;
  config: string | undefined;
}

/**
 * The control channels of the workloads: one for each microservice. A message says that something changed, not what. A
 * workload reads its config when it connects, so a message that it missed does not matter.
 */
export class ControlChannels implements Disposable {
  readonly #agent: LocalApiAgent;
  readonly #open = new Map<string, Channel>();
  #limits: string;
  readonly #stop: () => void;
  readonly #timer: NodeJS.Timeout;

  constructor(agent: LocalApiAgent) {
    this.#agent = agent;
    this.#limits = limitsOf(agent);
    this.#stop = agent.supervisor.onChange(() => this.#look());
    this.#timer = setInterval(() => {
      for (const { connection } of this.#open.values()) connection.ping();
    }, PING_EVERY);
    this.#timer.unref();
  }

  /** A microservice listens from now on; an older connection of it ends. */
  add(uuid: string, connection: WebSocketConnection): void {
    this.#open.get(uuid)?.connection.close(CLOSE.normal);
    this.#open.set(uuid, { connection, config: this.#agent.view(uuid)?.config });
    connection.onMessage = ([kind]) => {
      if (kind === MESSAGES.ping) connection.send(Buffer.from([MESSAGES.pong]));
    };
    connection.onClosed = () => {
      if (this.#open.get(uuid)?.connection === connection) this.#open.delete(uuid);
    };
  }

  [Symbol.dispose](): void {
    this.#stop();
    clearInterval(this.#timer);
    for (const { connection } of this.#open.values()) connection.close(CLOSE.goingAway);
  }

  #look(): void {
    if (this.#open.size === 0) return;
    const limits = limitsOf(this.#agent);
    const others = limits !== this.#limits;
    this.#limits = limits;
    for (const [uuid, channel] of this.#open) {
      const config = this.#agent.view(uuid)?.config;
      if (config !== channel.config) channel.connection.send(Buffer.from([MESSAGES.configChanged]));
      channel.config = config;
      if (others) channel.connection.send(Buffer.from([MESSAGES.limitsChanged]));
    }
  }
}

function limitsOf(agent: LocalApiAgent): string {
  const { cpuLimit, memoryLimit, diskLimit } = agent.effective();
  return JSON.stringify([cpuLimit, memoryLimit, diskLimit]);
}
