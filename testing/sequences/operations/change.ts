import type { Json } from '../../example.ts';
import { FORMS } from '../../examples.ts';
import { coreData, documentOf, pathOf } from '../forms.ts';
import { type Draft, isMissing, RULES, wrongByRules } from '../model.ts';
import { resolved } from '../resolve.ts';
import type { Perform } from './operation.ts';

export const change: Perform<'change'> = async (fleet, { kind, name, draft: raw, surface }) => {
  const draft = resolved(fleet.state, raw, surface);
  const { path, part, update, change: changed, spec } = FORMS[kind];
  const item = fleet.named(kind, name);
  const isFile = surface === 'yaml' && part !== undefined;
  const after = { ...(item ?? fleet.fresh(kind, name, draft)), draft };
  // Only a PATCH of an application template leaves the template as it is.
  if (item && kind === 'applicationTemplates' && surface === 'json') after.draft = { ...item.draft, text: draft.text };
  // A file changes in part, too: a certificate keeps the authority that the file leaves out.
  if (item && kind === 'certificates' && isFile) after.draft = { ...draft, isHub: draft.isHub || item.draft.isHub };
  const apply = () => {
    if (item) item.draft = after.draft;
    else fleet.add(after);
  };
  if (surface === 'kubectl') {
    const object = item && fleet.stored(item);
    if (!object) return;
    fleet.controller.cluster.edit(object, (copy) => {
      if (kind === 'secrets' || kind === 'configMaps') Object.assign(copy, { data: coreData(after) });
      else copy.spec = { ...(copy.spec as Json), ...spec(draft, name) };
      if (kind === 'volumeMounts') copy.spec = withOtherSource(copy.spec as Json, after.draft);
      if (!draft.isHub && kind === 'certificates') delete (copy.spec as Json).ca;
      if (!draft.files && (kind === 'models' || kind === 'knowledge')) delete (copy.spec as Json).files;
    });
    apply();
    return;
  }
  const creates = isFile && update === 'PUT';
  const base = pathOf(kind, item, name);
  await fleet.over(
    isFile
      ? { method: update ?? 'PUT', path: base.replace(path, `${path}/yaml`), file: documentOf(after) }
      : { method: 'PATCH', path: base, body: (changed ?? spec)(draft, name) },
    {
      refused: item || creates ? wrongByRules(after, fleet.state) : [isMissing(kind)],
      status: kind === 'applicationTemplates' && isFile ? 200 : RULES[kind].changed,
      apply,
    },
  );
};

/** A volume mount has one source. */
function withOtherSource(spec: Json, { source }: Draft): Json {
  const { secretName: _s, configMapName: _c, ...rest } = spec;
  return { ...rest, [source.to === 'secrets' ? 'secretName' : 'configMapName']: source.ref };
}
