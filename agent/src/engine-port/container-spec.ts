import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { ContainerFields } from '../../../src/wire/container.ts';

/**
 * A container to make. What depends on the machine, or on several fields, stands here in no engine's words; all other
 * container fields are as the view has them.
 */
export interface ContainerSpec {
  name: string;
  image: string;
  imageId: string;
  labels: Record<string, string>;
  env: string[];
  user?: string;
  aliases: string[];
  ports: MicroserviceView['portMappings'];
  mounts: { source: string; target: string; readOnly: boolean; relabel: boolean }[];
  extraHosts: { name: string; address: string }[];
  cdiDevices: string[];
  ulimits: { name: string; soft: number; hard: number }[];
  fields: ContainerFields;
}
