import type { ControllerRegistration, VersionReply } from '../../../src/wire/agent.ts';
import type { SystemFileContent } from '../../../src/wire/system-files.ts';
import type { ControllerClient } from './client.ts';
import type { SyncLoop } from './sync-loop.ts';

/** The sync loop with the controller and its client, as the membership opens and closes them. */
export class Link {
  #open: { syncLoop: SyncLoop; client: ControllerClient } | undefined;

  open(syncLoop: SyncLoop, client: ControllerClient): void {
    this.#open = { syncLoop, client };
  }

  close(): void {
    this.#open = undefined;
  }

  /** undefined while there is none */
  get client(): ControllerClient | undefined {
    return this.#open?.client;
  }

  get connection(): SyncLoop['connection'] | undefined {
    return this.#open?.syncLoop.connection;
  }

  /** Problems that keep the agent from applying the desired state. */
  get problems(): string[] {
    const disk = this.#open?.syncLoop.databaseProblem;
    return disk ? [`database: what the controller said last cannot be kept, and is not acted on: ${disk}`] : [];
  }

  /** How another request reaches a server: with authority and token at the address of this controller, with neither elsewhere. */
  accessTo(url: URL): ReturnType<ControllerClient['accessTo']> {
    return this.client?.accessTo(url) ?? {};
  }

  /** Registers the controller that runs on this machine; resolves with its uuid. Throws without a controller. */
  async registerController(body: ControllerRegistration, signal: AbortSignal): Promise<string> {
    return this.#need().registerController(body, signal);
  }

  /** The version that the controller requests; undefined when none is. Throws without a controller. */
  async version(signal: AbortSignal): Promise<VersionReply | undefined> {
    return this.#need().version(signal);
  }

  /** Content of the system's files, as the client fetches it. Throws without a controller. */
  async systemFileContents(
    digests: readonly string[],
    limit: number,
    signal: AbortSignal,
  ): Promise<SystemFileContent['contents']> {
    return this.#need().systemFileContents(digests, limit, signal);
  }

  #need(): ControllerClient {
    if (!this.client) throw new Error('the agent is not provisioned');
    return this.client;
  }

  /** Wakes the reporter: the state of this machine has changed. */
  changed(): void {
    this.#open?.syncLoop.changed();
  }
}
