import type { EdgeNodeSpec } from '../../../api/v3/index.ts';
import type { NodeInputs } from '../../../rules/inputs.ts';
import { sectionDigest } from '../../../rules/section-digest.ts';
import type { AgentConfig } from '../../../wire/agent.ts';
import type { Digests } from '../../../wire/sections.ts';
import type { TunnelView } from '../../../wire/tunnel.ts';
import { isDue, isWithdrawn, requestedAction } from './actions.ts';
import { CONFIG_FIELDS } from './settings.ts';
import { tunnelView } from './tunnel.ts';

interface NodeSections {
  config: AgentConfig;
  tunnel?: TunnelView;
  digests: Digests;
  /** digests of the actions that are due */
  actions: Digests;
}

/** What a node gets about itself: its settings, its tunnel, the actions that are due, and whether it is to give up its identity. */
export function nodeSections(inputs: Pick<NodeInputs, 'node' | 'tunnels'>, deleteNode: boolean): NodeSections {
  const { node } = inputs;
  const config = configOf(node.spec);
  const { tunnel, digest } = tunnelView(inputs);
  const actions = (['reboot', 'prune', 'version'] as const)
    .filter((action) => isDue(node, action) || (action === 'version' && isWithdrawn(node)))
    .map((action) => [action, sectionDigest([action, requestedAction(node, action)])]);
  return {
    config,
    ...(tunnel && { tunnel }),
    digests: {
      config: sectionDigest(config),
      ...(deleteNode && { deleteNode: sectionDigest('deleteNode') }),
      ...(digest !== undefined && { tunnel: digest }),
    },
    actions: Object.fromEntries(actions),
  };
}

function configOf(spec: EdgeNodeSpec): AgentConfig {
  return Object.fromEntries(
    CONFIG_FIELDS.filter((field) => spec[field] !== undefined).map((field) => [field, spec[field]]),
  );
}
