import { expect, test } from 'vitest';
import { startCallCounter } from '../../../../../testing/count-calls.ts';
import { makeInputs } from '../../../../../testing/inputs.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { makeApplication, makeEntry } from '../../_make.ts';

/** Applications of 20 entries with eight ports each, all on one node. */
const applicationsOf = (entries: number) =>
  Array.from({ length: entries / 20 }, (_, i) =>
    makeApplication({
      name: `app-${i}`,
      uid: `22222222-2222-4222-8222-${String(i).padStart(12, '0')}`,
      entries: Array.from({ length: 20 }, (_, j) =>
        makeEntry({
          name: `entry-${j}`,
          container: {
            ports: Array.from({ length: 8 }, (_, k) => ({
              internal: 1_000 + k,
              external: 10_000 + (i * 20 + j) * 8 + k,
              protocol: 'tcp' as const,
            })),
          },
        }),
      ),
    }),
  );

async function workOf(entries: number): Promise<number> {
  const applications = applicationsOf(entries);
  // As the indexes of the stores find them.
  const byName = new Map(applications.map((application) => [application.metadata.name, application]));
  const byEntry = new Map(
    applications.flatMap((application) =>
      (application.spec.microservices ?? []).map((entry) => [entryUuid(application, entry), [application]] as const),
    ),
  );
  const inputs = makeInputs({
    applications,
    applicationByName: (name) => byName.get(name),
    applicationsWithEntry: (uuid) => byEntry.get(uuid) ?? [],
  });
  using counter = await startCallCounter();
  const calls = await counter.during(() => desiredState(inputs));
  return [...calls.values()].reduce((sum, count) => sum + count, 0);
}

test.each([400, 1_200])('the desired state costs no more per entry for %d entries than for 40', async (many) => {
  expect((await workOf(many)) / many).toBeLessThan(((await workOf(40)) / 40) * 1.6);
});
