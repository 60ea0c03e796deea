import type { PortMapping } from '../../../src/api/container/index.ts';

/** Finds the containers of other agents. */
export interface OtherAgentsPort {
  /** Containers of other agents, running or not, without those that have the label only from their image. */
  containersOfOtherAgents(signal?: AbortSignal): Promise<OtherAgentContainer[]>;
}

/** Shows the binds of the whole engine. */
export interface BindsPort {
  /** What the containers of this engine bind, of whatever program, running or not. Throws where one cannot be looked at. */
  allBinds(signal?: AbortSignal): Promise<{ container: string; source: string }[]>;
}

/** Tells the containers of this agent from all others. */
export interface OwnershipPort extends OtherAgentsPort {
  /**
   * Names of the containers on this engine that are not of this agent, running or not, without the one that it runs in. They
   * are touched only where the machine's own file says so.
   */
  foreignContainers(signal?: AbortSignal): Promise<string[]>;
  /** Changes the instance whose containers this adapter handles. Connect again afterwards. */
  become(instance: string): void;
}

/** A container that another agent made. */
export interface OtherAgentContainer {
  id: string;
  name: string;
  /** of the agent that made it, and of the node that this one was then */
  instance: string;
  nodeUuid: string;
  application: string;
  microservice: string;
  running: boolean;
  /** the ports of the machine that it has while it runs */
  ports?: readonly Pick<PortMapping, 'external' | 'protocol'>[];
}
