import { Command, Help, type HelpConfiguration, Option } from 'commander'
import { EXAMPLES } from './help/examples.data.ts'
import { COMMON_HEADING } from './options.ts'

const REQUIRED_HEADING = 'Required:'

/** How help is laid out: required options first and in the usage, those of every command last. */
export const HELP_LAYOUT: HelpConfiguration = {
  commandUsage(command) {
    const required = command.options.filter(({ mandatory }) => mandatory).map(({ flags }) => flags)
    return layout.commandUsage(command).replace('[options]', [...required, '[options]'].join(' '))
  },
  groupItems(all, visible, getGroup) {
    const getHeading = (item: (typeof all)[number]) =>
      item instanceof Option && item.mandatory ? REQUIRED_HEADING : getGroup(item)
    const groups = [...layout.groupItems(all, visible, getHeading)]
    return new Map(groups.sort(([a], [b]) => rankHeading(a) - rankHeading(b)))
  },
}

const layout = new Help()

const rankHeading = (heading: string): number =>
  [REQUIRED_HEADING, 'Options:', COMMON_HEADING].indexOf(heading)

/** Adds examples to the help of a command and of those below it. */
export function addExamples(command: Command): void {
  const lines = findExamples(command)
  if (lines.length > 0)
    command.addHelpText(
      'after',
      `\nExamples:\n${lines.map(line => `  gateway ${line}`).join('\n')}`,
    )
  for (const child of command.commands) addExamples(child)
}

/** Finds the examples of a command; those of a noun are the first of each of its verbs. */
export function findExamples(command: Command): string[] {
  const own = EXAMPLES[spellPath(command)]
  if (own || command.parent === null) return own ?? ROOT_EXAMPLES
  return command.commands.flatMap(child => findExamples(child).slice(0, 1))
}

const ROOT_EXAMPLES = ['serve', 'keys create --name laptop', 'help keys create']

const spellPath = (command: Command): string =>
  command.parent === null ? '' : `${spellPath(command.parent)} ${command.name()}`.trim()

/** `gateway help`: the help of a command at any depth. */
export const createHelpCommand = () =>
  new Command('help')
    .description('show the help of a command')
    .argument('[command...]', 'its words, such as keys create')
    .action(showHelp)

function showHelp(words: string[], _: object, self: Command): void {
  let command = self.parent as Command
  for (const word of words) {
    const child = command.commands.find(one => one.name() === word)
    if (!child) command.error(`error: unknown command '${words.join(' ')}'`)
    else command = child
  }
  command.outputHelp()
}
