import type { Application, EdgeNode } from '../../../../api/v3/index.ts';
import { isObject, quoted } from '../../../../rules/document.ts';
import { invalid } from '../../../../rules/errors.ts';
import type { LookUp } from '../../../../rules/renderer.ts';

/** What the filters that read other objects need; each read asks first whether it is allowed. */
export interface LookUpInputs {
  nodes(signal: AbortSignal): Promise<readonly EdgeNode[]>;
  nodeBy(key: 'name' | 'uuid', value: string, signal: AbortSignal): Promise<EdgeNode | undefined>;
  applicationByName(name: string, signal: AbortSignal): Promise<Application | undefined>;
  readNodes(nodes: readonly EdgeNode[], signal: AbortSignal): Promise<Record<string, unknown>[]>;
  readApplication(application: Application, signal: AbortSignal): Promise<Record<string, unknown>>;
}

/** Greatest number of nodes that one expression gets. */
const NODES = 1_000;

/** The filters that read other objects (docs/spec/rest-v3.md#expressions). */
export function lookUps(inputs: LookUpInputs): LookUp {
  const one = async (node: EdgeNode | undefined, what: string, signal: AbortSignal) => {
    if (!node) throw invalid(`there is no node ${what}`);
    return (await inputs.readNodes([node], signal))[0];
  };
  const filters: Record<Parameters<LookUp>[0], (input: unknown, signal: AbortSignal) => Promise<unknown>> = {
    async findAgent(name, signal) {
      if (typeof name !== 'string') throw invalid(`findAgent: ${quoted(name)}; must be the name of a node`);
      if (name !== '') return one(await inputs.nodeBy('name', name, signal), quoted(name), signal);
      const nodes = await inputs.nodes(signal);
      if (nodes.length > NODES)
        throw invalid(`findAgent: there are ${nodes.length} nodes; without a name it gives at most ${NODES}`);
      return inputs.readNodes(nodes, signal);
    },
    async findApplication(name, signal) {
      if (typeof name !== 'string' || name === '')
        throw invalid(`findApplication: ${quoted(name)}; must be the name of an application`);
      const application = await inputs.applicationByName(name, signal);
      if (!application) throw invalid(`there is no application ${quoted(name)}`);
      return inputs.readApplication(application, signal);
    },
    async findMicroserviceAgent(microservice, signal) {
      const { nodeUuid, agentName } = isObject(microservice) ? microservice : {};
      if (typeof nodeUuid === 'string' && nodeUuid !== '')
        return one(await inputs.nodeBy('uuid', nodeUuid, signal), `with the uuid ${quoted(nodeUuid)}`, signal);
      if (typeof agentName === 'string' && agentName !== '')
        return one(await inputs.nodeBy('name', agentName, signal), quoted(agentName), signal);
      throw invalid('findMicroserviceAgent: needs a microservice that names its node');
    },
  };
  return (filter, input, signal) => filters[filter](input, signal);
}
