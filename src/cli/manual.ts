import type { Argument, Command, Option } from 'commander'
import { findExamples } from './help.ts'
import { COMMON_HEADING } from './options.ts'

/** One command as the manual describes it: from the definitions that its help is made of. */
export interface ManualPage {
  /** Its words, without the program's. */
  words: string[]
  description: string
  usage: string
  arguments: Entry[]
  options: Entry[]
  /** Those of the options of every command that it takes, or a command below it. */
  common: Entry[]
  examples: string[]
  /** The commands below it, by their words. */
  children: { words: string[]; description: string }[]
}

/** A term and what it means. */
export interface Entry {
  term: string
  meaning: string
}

/** Lists a page for each command, in the order of the program, the program's own first. */
export function listPages(command: Command, words: string[] = []): ManualPage[] {
  const below = command.commands.flatMap(child => listPages(child, [...words, child.name()]))
  return [describe(command, words), ...below]
}

function describe(command: Command, words: string[]): ManualPage {
  const help = command.createHelp()
  return {
    words,
    description: command.description(),
    usage: help.commandUsage(command),
    arguments: command.registeredArguments.map(describeArgument),
    options: command.options
      .filter(({ helpGroupHeading, hidden }) => !hidden && helpGroupHeading !== COMMON_HEADING)
      .map(describeOption),
    common: describeCommonOptions(command),
    examples: findExamples(command),
    children: command.commands.map(child => ({
      words: [...words, child.name()],
      description: child.description(),
    })),
  }
}

const describeArgument = (argument: Argument): Entry => ({
  term: argument.required ? `<${nameArgument(argument)}>` : `[${nameArgument(argument)}]`,
  meaning: addChoices(argument.description, argument),
})

const nameArgument = (argument: Argument): string =>
  `${argument.name()}${argument.variadic ? '...' : ''}`

const describeOption = (option: Option): Entry => ({
  term: option.flags,
  meaning: addChoices(option.description, option) + (option.mandatory ? ' (required)' : ''),
})

function addChoices(
  text: string,
  { argChoices, defaultValue, defaultValueDescription }: Argument | Option,
): string {
  const notes = [
    argChoices && `one of ${argChoices.join(', ')}`,
    typeof defaultValue === 'string' || typeof defaultValue === 'number'
      ? `default ${defaultValueDescription ?? defaultValue}`
      : '',
  ].filter(Boolean)
  return notes.length === 0 ? text : `${text} (${notes.join('; ')})`
}

/** The options of every command that a command takes, or one below it, each described once. */
export function describeCommonOptions(command: Command): Entry[] {
  const found = new Map<string, Entry>()
  for (const { options } of listCommands(command))
    for (const option of options)
      if (option.helpGroupHeading === COMMON_HEADING && !found.has(option.flags))
        found.set(option.flags, describeOption(option))
  return [...found.values(), { term: '-h, --help', meaning: 'show this help' }]
}

const listCommands = (command: Command): Command[] => [
  command,
  ...command.commands.flatMap(listCommands),
]

/** What a command ends with, and why. */
export const EXIT_STATUSES: Entry[] = [
  { term: '0', meaning: 'Done' },
  { term: '1', meaning: 'Failed' },
  { term: '2', meaning: 'Wrong usage' },
  { term: '3', meaning: 'Not found' },
  { term: '4', meaning: 'Conflict' },
  { term: '5', meaning: 'Refused' },
]

/** The environment variables that commands read. */
export const VARIABLES: Entry[] = [
  { term: 'GATEWAY_DATA', meaning: 'The data directory' },
  { term: 'GATEWAY_CONFIG', meaning: 'The config file' },
  { term: 'GATEWAY_HOST, GATEWAY_PORT', meaning: 'Where gateway serve listens' },
  { term: 'GATEWAY_SECRET', meaning: 'The secret that seals, in place of secret.key' },
  { term: 'GATEWAY_PREVIOUS_SECRET', meaning: 'The secret before it, while it is replaced' },
  { term: 'GATEWAY_POSTGRES_URL', meaning: 'The database that gateway store copy calls postgres:' },
  { term: 'GATEWAY_KEY', meaning: 'The management key for a gateway elsewhere (--url)' },
  { term: 'NO_COLOR', meaning: 'No colours' },
]
