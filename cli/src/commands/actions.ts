import type { Application } from '../../../src/api/v3/index.ts';
import { retryOnConflict } from '../../../src/kube/mod.ts';
import { requestRebuild } from '../../../src/subjects/nodes/rules/actions.ts';
import {
  APPLICATIONS,
  applicationNamed,
  type Command,
  type CommandContext,
  FIELD_MANAGER,
  target,
} from '../context/command.ts';
import { completeTargets, requireEntry } from '../objects/targets.ts';

/** Commands about an application or one of its microservices. */

/** Edits the application that a word names, on condition that nobody else has edited it meanwhile. */
async function editTarget(
  context: CommandContext,
  edit: (application: Application, microservice: string | undefined) => Application,
): Promise<string> {
  const { client } = context.cluster;
  const { application: name, microservice } = target(context.words[0] ?? '');
  await retryOnConflict(
    async () => {
      const application = await applicationNamed(context, name);
      if (microservice !== undefined) requireEntry(application, microservice);
      const changed = edit(application, microservice);
      if (changed !== application)
        await client.replace(APPLICATIONS, changed, { fieldManager: FIELD_MANAGER, signal: context.signal });
    },
    { signal: context.signal },
  );
  return microservice === undefined ? `application/${name}` : `microservice/${name}/${microservice}`;
}

function activate(isActivated: boolean): Command['run'] {
  return async (context) => {
    const what = await editTarget(context, (application, microservice) => {
      const { spec } = application;
      if (microservice === undefined)
        return (spec.isActivated ?? true) === isActivated
          ? application
          : { ...application, spec: { ...spec, isActivated } };
      const microservices = (spec.microservices ?? []).map((entry) =>
        entry.name === microservice && (entry.isActivated ?? true) !== isActivated ? { ...entry, isActivated } : entry,
      );
      if (microservices.every((entry, index) => entry === spec.microservices?.[index])) return application;
      return { ...application, spec: { ...spec, microservices } };
    });
    context.out(`${what} ${isActivated ? 'started' : 'stopped'}\n`);
  };
}

const common = {
  usage: 'APP[/MS]',
  words: { min: 1, max: 1 },
  complete: (context: CommandContext) => completeTargets(context, true),
} as const;

export const start: Command = {
  ...common,
  name: 'start',
  about: 'Start an application or one microservice',
  examples: ['start plant-a', 'start plant-a/reader'],
  run: activate(true),
};

export const stop: Command = {
  ...common,
  name: 'stop',
  about: 'Stop an application or one microservice; volumes stay',
  examples: ['stop plant-a', 'stop plant-a/reader'],
  run: activate(false),
};

export const rebuild: Command = {
  ...common,
  name: 'rebuild',
  about: 'Pull the image again and replace the container',
  examples: ['rebuild plant-a/reader', 'rebuild plant-a'],
  async run(context) {
    const what = await editTarget(context, (application, microservice) => {
      const names = microservice ? [microservice] : (application.spec.microservices ?? []).map(({ name }) => name);
      const annotations = { ...application.metadata.annotations, ...requestRebuild(application, names) };
      return { ...application, metadata: { ...application.metadata, annotations } };
    });
    context.out(`${what} will be rebuilt\n`);
  },
};
