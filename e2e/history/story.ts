import { describe } from './check.ts';
import type { Story } from './generate.ts';
import type { History, Violation } from './history.ts';
import { stateText } from './model.ts';

/** A history as text for people: the violations, then all related events in the order of time. */
export function report(story: Story, history: History, violations: readonly Violation[]): string {
  const head = `seed ${story.seed} (${story.profile}): ${violations.length === 0 ? 'all promises held' : 'BROKEN'}`;
  if (violations.length === 0) return head;
  const apps = new Set(violations.map((one) => one.app ?? appOf(history, one.uuid)).filter((app) => app !== undefined));
  return [
    head,
    ...violations.map(({ checker, at, text }) => `  ${time(at)} ${checker}: ${text}`),
    `repeat: node e2e/history/main.ts --seed ${story.seed}`,
    '',
    timeline(history, apps.size > 0 ? apps : undefined),
  ].join('\n');
}

/** All events, or the events of some applications and all faults. */
export function timeline(history: History, apps?: ReadonlySet<string>): string {
  const { operations, versions, engine, faults } = history;
  const concerns = (app: string | undefined) => !apps || app === undefined || apps.has(app);
  const lines: { at: number; text: string }[] = [];
  for (const one of operations) {
    if (!concerns(one.app)) continue;
    lines.push({ at: one.invoked, text: `${describe(one)} ...` });
    const shown = one.read ? ` ${JSON.stringify(one.read)}` : '';
    if (one.answered !== undefined)
      lines.push({
        at: one.answered,
        text: `... ${one.id}: ${one.outcome}${shown}${one.said ? ` (${one.said})` : ''}`,
      });
  }
  let before = '';
  for (const { app, at, resourceVersion, generation, state, ready } of versions) {
    if (!concerns(app)) continue;
    const said = ready
      ? `${ready.status} ${ready.reason} of ${ready.observedGeneration}: ${ready.message}`
      : 'no status';
    const text = `    ${app} @${resourceVersion} generation ${generation} [${stateText(state)}] says ${said}`;
    if (text.replace(/@\d+/, '') !== before) lines.push({ at, text });
    before = text.replace(/@\d+/, '');
  }
  const seen = new Set<string>();
  for (const record of engine) {
    const { at, node, id, what, uuid } = record;
    if (!concerns(appOf(history, uuid))) continue;
    const key = `${node}/${id}`;
    if (what === 'seen' && seen.has(key)) continue;
    if (what === 'seen') seen.add(key);
    if (what === 'start') seen.delete(key);
    const made = what === 'create' ? ` ${record.value} ${record.image} rebuild ${record.rebuild}` : '';
    const why =
      'reason' in record && record.reason ? ` (${record.reason})` : 'because' in record ? ` (${record.because})` : '';
    lines.push({ at, text: `        ${node} ${what} ${id.slice(-6)}${made}${why} ${nameOf(history, uuid)}` });
  }
  for (const { at, until, kind, target, text } of faults) {
    lines.push({ at, text: `!! ${kind} ${target} ${text}` });
    if (until !== undefined && until - at > 20) lines.push({ at: until, text: `!! end of ${kind} ${target}` });
  }
  return lines
    .sort((a, b) => a.at - b.at)
    .map(({ at, text }) => `${time(at)} ${text}`)
    .join('\n');
}

const time = (at: number) => `${(at / 1000).toFixed(3).padStart(8)}`;

const appOf = ({ versions }: History, uuid: string | undefined) =>
  uuid === undefined ? undefined : versions.find(({ uuids }) => Object.values(uuids).includes(uuid))?.app;

function nameOf({ versions }: History, uuid: string): string {
  for (const { app, uuids } of versions)
    for (const [name, one] of Object.entries(uuids)) if (one === uuid) return `${app}/${name}`;
  return uuid;
}
