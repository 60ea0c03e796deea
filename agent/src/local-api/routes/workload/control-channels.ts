import type { MessageSocket } from '../../../../../src/lib/web-socket/socket.ts';
import type { AgentConfig, MicroserviceView } from '../../../../../src/wire/agent.ts';
import { CLOSE_CODES } from '../../../../../src/wire/sessions.ts';
import type { AcceptedControl } from './control-socket.ts';

/** What the control channels need of the agent. */
interface ChannelAgent {
  /** the settings in force */
  effective(): AgentConfig;
  view(uuid: string): Pick<MicroserviceView, 'config'> | undefined;
  /** `onChange` returns a function that stops listening. */
  readonly supervisor: { onChange(listener: () => void): () => void };
}

/** First byte of each message (docs/spec/agent-local-api.md#control-channel). */
const MESSAGES = { ping: 0x9, pong: 0xa, configChanged: 0xc, limitsChanged: 0xf } as const;

interface Channel {
  connection: MessageSocket;
  config: string | undefined;
}

/**
 * The control channels of the workloads: one for each microservice. A message says that something changed, not what. A
 * workload reads its config when it connects, so a message that it missed does not matter.
 */
export class ControlChannels implements Disposable {
  readonly #agent: ChannelAgent;
  readonly #open = new Map<string, Channel>();
  #limits: string;
  readonly #stop: () => void;

  constructor(agent: ChannelAgent) {
    this.#agent = agent;
    this.#limits = limitsOf(agent);
    this.#stop = agent.supervisor.onChange(() => this.#look());
  }

  /** A microservice listens from now on; an older connection of it ends. */
  add(uuid: string, accepted: AcceptedControl): void {
    this.#open.get(uuid)?.connection.close(CLOSE_CODES.ended, '');
    const connection = accepted({
      message([kind]) {
        if (kind === MESSAGES.ping) connection.send(Buffer.from([MESSAGES.pong]));
      },
      closed: () => {
        if (this.#open.get(uuid)?.connection === connection) this.#open.delete(uuid);
      },
    });
    this.#open.set(uuid, { connection, config: this.#agent.view(uuid)?.config });
  }

  [Symbol.dispose](): void {
    this.#stop();
    for (const { connection } of this.#open.values()) connection.close(CLOSE_CODES.goingAway, '');
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

function limitsOf(agent: ChannelAgent): string {
  const { cpuLimit, memoryLimit, diskLimit } = agent.effective();
  return JSON.stringify([cpuLimit, memoryLimit, diskLimit]);
}
