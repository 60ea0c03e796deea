import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import { sectionDigest } from '../../../rules/section-digest.ts';
import type { AgentConfig } from '../../../wire/agent.ts';
import type { Digests } from '../../../wire/sections.ts';
import { isDue, isWithdrawn, requestedAction } from './actions.ts';
import { CONFIG_FIELDS } from './settings.ts';

interface NodeSections {
  config: AgentConfig;
  digests: Digests;
  /** digests of the actions that are due */
  actions: Digests;
}

/** What a node gets about itself: its settings, the actions that are due, and whether it is to give up its identity. */
export function nodeSections(node: EdgeNode, deleteNode: boolean): NodeSections {
  const config = configOf(node.spec);
  const actions = (['reboot', 'prune', 'version'] as const)
    .filter((action) => isDue(node, action) || (action === 'version' && isWithdrawn(node)))
    .map((action) => [action, sectionDigest([action, requestedAction(node, action)])]);
  return {
    config,
    digests: { config: sectionDigest(config), ...(deleteNode && { deleteNode: sectionDigest('deleteNode') }) },
    actions: Object.fromEntries(actions),
  };
}

function configOf(spec: EdgeNodeSpec): AgentConfig {
  return Object.fromEntries(
    CONFIG_FIELDS.filter((field) => spec[field] !== undefined).map((field) => [field, spec[field]]),
  );
}
