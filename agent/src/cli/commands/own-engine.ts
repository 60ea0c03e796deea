import { parseConfig } from '../../domain/config.ts';
import { CliError } from '../../local-api/client.ts';
import { readText } from '../../machine/disk.ts';
import { type Command, type CommandContext, confirm, show } from './command.ts';

/** The agent's own engine, for its unit (skerry-containerd.service) and for the removal of the package. */
export const OWN_ENGINE_COMMANDS: readonly Command[] = [
  {
    name: 'runtime wanted',
    about: "Say whether this machine runs its containers on the agent's own engine; exit code 1 where it does not",
    offline: true,
    run: async (context) => {
      const { engineOf, readEngineRecord } = await import('../../engines/find.ts');
      const config = settingsOf(context);
      const { kind } = engineOf(config);
      // Containers that the agent has yet to remove from its former engine need that engine.
      const isWanted = [kind, readEngineRecord(config)?.choice?.kind, readEngineRecord(config)?.left?.kind].includes(
        'embedded',
      );
      show(context, { wanted: isWanted }, () => (isWanted ? 'yes\n' : 'no: the containers are on another engine\n'));
      if (!isWanted) context.exitWith(1);
    },
  },
  {
    name: 'runtime prepare',
    about: "Write the settings and the network of the agent's own engine, which its unit then starts",
    offline: true,
    run: async (context) => {
      const { prepareContainerd } = await import('../../engines/embedded/machine/prepare.ts');
      const { ownContainerd } = await import('../../engines/embedded/machine/own.ts');
      const { version, network } = prepareContainerd({
        ...ownContainerd(),
        bridgeCidr: settingsOf(context).bridgeCidr,
      });
      show(context, { version, network }, () => `containerd ${version}, containers in ${network.subnet}\n`);
    },
  },
  {
    name: 'runtime remove',
    about:
      "End the containers of the agent's own engine and remove what it has on this machine; images stay without --purge",
    flags: { purge: { about: 'images and records of containers go as well' }, yes: { about: 'do not ask' } },
    examples: ['runtime remove --purge'],
    offline: true,
    run: async (context) => {
      const { removeOwnContainerd } = await import('../../engines/embedded/machine/own.ts');
      if (!context.flags.yes) await confirm(context, ["All containers of the agent's own engine end. Volumes stay."]);
      const left = await removeOwnContainerd({ purge: context.flags.purge === true });
      if (left.length > 0) throw new CliError('UNAVAILABLE', `not all is removed: ${left.join('; ')}`, 'Try it again.');
      show(context, { removed: true }, () => 'Removed\n');
    },
  },
];

const settingsOf = ({ configFile }: CommandContext) => parseConfig(readText(configFile), configFile);
