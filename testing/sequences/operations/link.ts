import type { Json } from '../../example.ts';
import { pathOf } from '../forms.ts';
import { find, isMissing, type Refusal, RULES, usersOf } from '../model.ts';
import type { Perform } from './operation.ts';

export const link: Perform<'link' | 'unlink'> = async (fleet, { do: verb, kind, name, node, byUuid, surface }) => {
  const { state } = fleet;
  const isLink = verb === 'link';
  const item = find(state, { to: kind, ref: name });
  const at = find(state, { to: 'nodes', ref: node });
  const text = byUuid && at?.uuid ? at.uuid : node;
  if (surface === 'kubectl') {
    const object = item && fleet.stored(item);
    if (!object) return;
    const others = item.nodes.filter((one) => one !== text);
    item.nodes = isLink ? [...others, text] : others;
    fleet.controller.cluster.edit(object, (copy) => {
      (copy.spec as Json).nodes = item.nodes;
    });
    return;
  }
  const names = at ? [at.uuid, at.name] : [];
  const isLinked = item?.nodes.some((one) => names.includes(one));
  const users = item && at && !isLink ? usersOf(state, item, at) : [];
  const refused: Refusal[] = item ? [] : [isMissing(kind)];
  if (!at && (isLink || !item?.nodes.includes(text))) refused.push({ status: 404, code: 'NOT_FOUND_AGENT_NAME' });
  // These nodes have reported no runtime.
  if (isLink && kind === 'runtimeClasses' && item && at && !isLinked)
    refused.push({ status: 400, code: 'RUNTIME_CLASS_LINK_NOT_AVAILABLE' });
  if (users.length > 0) refused.push({ status: 409, code: RULES[kind].unlink ?? '' });
  await fleet.over(
    { method: isLink ? 'POST' : 'DELETE', path: `${pathOf(kind, item, name)}/link`, body: { fogUuids: [text] } },
    {
      refused,
      names: users,
      status: 200,
      apply: () => {
        if (!item) return;
        if (!isLink) item.nodes = item.nodes.filter((one) => one !== text && !names.includes(one));
        else if (!isLinked) item.nodes = [...item.nodes, at?.uuid ?? ''];
      },
    },
  );
};
