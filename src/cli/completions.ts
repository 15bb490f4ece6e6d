import type { Argument, Command, Option } from 'commander'
import { findSource, takesList, type ValueSource } from './completions/sources.ts'
import type { CommonOptions } from './options.ts'

/** How a line may go on: a word, and what it is. */
export interface Candidate {
  value: string
  meaning: string
}

/** What may stand at a place of a line. */
export interface Completion {
  candidates: Candidate[]
  /** Names of files may stand there. */
  areFiles: boolean
}

/** Lists the values of a source that begin with a text. */
export type ListValues = (
  source: Exclude<ValueSource, 'files'>,
  text: string,
  options: CommonOptions & { workspace?: string },
) => Promise<Candidate[]>

/** A line before the word that is being typed. */
interface Place {
  command: Command
  /** How many arguments there are so far. */
  count: number
  /** The option whose value is next. */
  pending: Option | undefined
  given: Set<Option>
  values: Record<string, string>
  isAfterDashes: boolean
}

/**
 * Completes the last word of a line: commands, options, and their values, which `listValues` reads.
 * Every candidate begins with what was typed.
 */
export async function completeLine(
  program: Command,
  words: string[],
  listValues: ListValues,
): Promise<Completion> {
  const place = walkLine(program, words.slice(0, -1))
  const text = words.at(-1) ?? ''
  const { command, pending, isAfterDashes } = place
  if (pending) return completeValue(pending, '', text, place, listValues)
  const [, flag = '', value] = /^(--[^=]+)=(.*)$/s.exec(text) ?? []
  const option = isAfterDashes ? undefined : findOption(command, flag)
  if (option && value !== undefined)
    return completeValue(option, `${flag}=`, value, place, listValues)
  if (text.startsWith('-') && !isAfterDashes) return toCompletion(listOptions(place), text)
  if (command.commands.length > 0)
    return toCompletion(place.count === 0 ? listCommands(command) : [], text)
  if (command.name() === 'help' && command.parent?.parent === null)
    return toCompletion(listCommands(findCommand(program, words.slice(1, -1))), text)
  const argument = findArgument(place)
  return argument
    ? completeValue(argument, '', text, place, listValues)
    : toCompletion(isAfterDashes ? [] : listOptions(place), text)
}

function walkLine(program: Command, words: string[]): Place {
  const place: Place = {
    ...{ command: program, count: 0, pending: undefined, given: new Set() },
    ...{ values: {}, isAfterDashes: false },
  }
  for (const word of words) takeWord(place, word)
  return place
}

function takeWord(place: Place, word: string): void {
  const { command, pending } = place
  if (pending) {
    place.values[pending.attributeName()] = word
    place.pending = undefined
  } else if (word === '--') place.isAfterDashes = true
  else if (word.startsWith('-') && !place.isAfterDashes) takeOption(place, word)
  else {
    const child = command.commands.find(one => one.name() === word)
    if (child) place.command = child
    else place.count += 1
  }
}

function takeOption(place: Place, word: string): void {
  const end = word.indexOf('=')
  const option = findOption(place.command, end === -1 ? word : word.slice(0, end))
  if (!option) return
  place.given.add(option)
  if (end !== -1) place.values[option.attributeName()] = word.slice(end + 1)
  else if (option.required) place.pending = option
}

const findOption = ({ options }: Command, flag: string): Option | undefined =>
  options.find(({ long, short }) => flag !== '' && (long === flag || short === flag))

function findCommand(program: Command, names: string[]): Command {
  const command = names.reduce<Command | undefined>(
    (at, name) => at?.commands.find(child => child.name() === name),
    program,
  )
  return command ?? program
}

function findArgument({ command, count }: Place): Argument | undefined {
  const all = command.registeredArguments
  return all[count] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined)
}

const listCommands = (command: Command): Candidate[] =>
  command.commands.map(child => ({ value: child.name(), meaning: child.description() }))

function listOptions({ command, given }: Place): Candidate[] {
  const help = { value: '--help', meaning: 'show this help' }
  const open = command.options.filter(
    option => !option.hidden && (!given.has(option) || option.variadic),
  )
  return [
    ...open.map(({ long, flags, description }) => ({ value: long ?? flags, meaning: description })),
    help,
  ]
}

async function completeValue(
  described: Option | Argument,
  before: string,
  text: string,
  { values: { data, config, workspace } }: Place,
  listValues: ListValues,
): Promise<Completion> {
  const choices = described.argChoices?.map(value => ({ value, meaning: '' }))
  const source = findSource(described)
  if (source === 'files' && !choices) return { candidates: [], areFiles: true }
  // Of a list the last entry is being typed.
  const comma = 'flags' in described && takesList(described) ? text.lastIndexOf(',') + 1 : 0
  const done = before + text.slice(0, comma)
  const typed = text.slice(comma)
  const options = {
    ...(data === undefined ? {} : { data: expandHome(data) }),
    ...(config === undefined ? {} : { config: expandHome(config) }),
    ...(workspace === undefined ? {} : { workspace }),
  }
  const found =
    choices ?? (source && source !== 'files' ? await listValues(source, typed, options) : [])
  const { candidates } = toCompletion(found, typed)
  return {
    candidates: candidates.map(({ value, meaning }) => ({ value: done + value, meaning })),
    areFiles: false,
  }
}

// A shell does this to a line before it runs, and not while it is typed.
const expandHome = (path: string): string =>
  path.startsWith('~/') ? `${process.env.HOME ?? '~'}${path.slice(1)}` : path

const toCompletion = (candidates: Candidate[], text: string): Completion => ({
  candidates: candidates.filter(({ value }) => value.startsWith(text)),
  areFiles: false,
})
