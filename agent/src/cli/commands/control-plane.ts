import { structured } from '../../../../src/terminal/output.ts';
import { CliError } from '../../local-api/client.ts';
import { type Command, REMOVAL, show } from './command.ts';

const CONTROL_PLANE = '/v1/system/controlplane';

/** The control plane that runs on this machine; `deploy` defines it. */
export const CONTROL_PLANE_COMMANDS: readonly Command[] = [
  {
    name: 'controlplane get',
    about: 'Show the control plane of this machine',
    flags: { manifest: { about: 'show its manifest, without what is secret' } },
    run: async (context) => {
      const { client, flags } = context;
      if (!flags.manifest) {
        const status = await client.call<Record<string, unknown>>('GET', CONTROL_PLANE);
        return show(context, status, () => structured(status, 'yaml'));
      }
      const data = await client.call<{ manifestYaml: string }>('GET', `${CONTROL_PLANE}/manifest`);
      show(context, data, () => data.manifestYaml);
    },
  },
  {
    name: 'controlplane restart',
    about: 'Start the container of the control plane again',
    flags: { pull: { about: 'make it again from its image, which is pulled before' } },
    run: async (context) => {
      const query = context.flags.pull ? '?pull=true' : '';
      const data = await context.client.call<{ message?: string }>('POST', `${CONTROL_PLANE}/restart${query}`);
      show(context, data, () => `control plane: restarts\n${data.message ? `${data.message}\n` : ''}`);
    },
  },
  {
    name: 'controlplane delete',
    about: 'Remove the control plane of this machine with all of its data',
    flags: { yes: { about: 'do not ask' } },
    run: async (context) => {
      const { client, flags, ask } = context;
      if (!flags.yes) {
        const fate = 'The control plane is removed with its data: nodes, applications, users and keys.';
        if (!ask)
          throw new CliError('INVALID_ARGUMENT', `${fate} There is no terminal to ask on`, 'Confirm with --yes.');
        if (!(await ask(`${fate}\nGo on?`))) throw new CliError('DECLINED', 'nothing was changed');
      }
      const data = await client.call<{ warning?: string }>('DELETE', CONTROL_PLANE, { deadline: REMOVAL });
      show(context, data, () => `control plane: removed\n${data.warning ? `warning: ${data.warning}\n` : ''}`);
    },
  },
];
