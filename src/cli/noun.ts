import type { Static, TSchema } from '@sinclair/typebox'
import { Argument, Command, type Option } from 'commander'
import type { Gateway } from '../app/gateway.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import type { Actor } from '../resources/actor.ts'
import { suggest, type ValueSource } from './completions/sources.ts'
import { confirm } from './confirm.ts'
import type { Fields, Flags } from './fields.ts'
import { printRest, readList } from './lists.ts'
import { findNamed, type Match, type Naming } from './names.ts'
import { addCommonOptions, parseInput } from './options.ts'
import { print, printFields, printNote, printResult, printTable } from './output.ts'
import { type Needs, withGateway } from './with-gateway.ts'

type ArgumentType<Part> = Part extends `${string}...${string}`
  ? string[]
  : Part extends `[${string}`
    ? string | undefined
    : string

/** The types of the arguments in a signature: `versions <slug> [version]` has two. */
type ArgumentTypes<Signature> = Signature extends `${string} ${infer Rest}`
  ? Rest extends `${infer First} ${string}`
    ? [ArgumentType<First>, ...ArgumentTypes<Rest>]
    : [ArgumentType<Rest>]
  : []

/**
 * The core function behind a verb. It receives the gateway, the operator and the arguments of the
 * line.
 */
type CoreCall<Input extends unknown[], Answer> = (
  gateway: Gateway,
  actor: Actor,
  ...input: Input
) => Answer | Promise<Answer>

/**
 * A core function that also receives, after the arguments, an input that matches the schema. The
 * operations of a noun are such calls.
 */
interface InputCall<Arguments extends unknown[], Answer> {
  schema: TSchema | undefined
  run: CoreCall<[...Arguments, never], Answer>
}

/** Passes what the options fill to a core function. Throws 400 unless it matches the schema. */
export const withInput = <Arguments extends unknown[], Schema extends TSchema, Answer>(
  schema: Schema,
  run: CoreCall<[...Arguments, Static<Schema>], Answer>,
): InputCall<Arguments, Answer> => ({ schema, run })

/** What a printer may use in addition to the answer. */
interface PrintContext<Core, Arguments> {
  core: Core
  gateway: Gateway
  actor: Actor
  flags: Flags
  args: Arguments
  /** What the first argument names, as it was named. */
  named: string
  /** Prints rows under headings; on stderr that there are none. */
  printList(headings: string[], rows: Cell[][]): void
}

type Cell = string | number | null

/** The cell under each heading of a table. */
type Columns<Row, Context> = Record<string, (row: Row, context: Context) => Cell>

/** Prints an answer for people: a function, or the columns of a table of the rows in `data`. */
type Printer<Answer, Context> =
  | ((answer: Answer, context: Context) => void | Promise<void>)
  | (Answer extends { data: (infer Row)[] } ? Columns<Row, Context> : never)

/** Sentences about what a list hides. */
type DescribeHidden<Answer, Context> = (
  answer: Answer,
  context: Context,
) => string[] | Promise<string[]>

/** A verb whose output for people can be set. */
interface Printable<Answer, Context> {
  printAs(printer: Printer<Answer, Context>, hides?: DescribeHidden<Answer, Context>): Command
}

/** A command that prints the fields of its answer's `data` if there are any. */
type VerbCommand<Answer, Context> = Printable<Answer, Context> &
  (Answer extends { data: unknown[] }
    ? unknown
    : Answer extends { data: object }
      ? Command
      : unknown)

/** Settings that the verbs over one core module share. */
interface Shared {
  /** Descriptions of their arguments, for the help. */
  args?: Record<string, string>
  /** What their arguments name by id, name or a beginning of one; not where they create it. */
  names?: Record<string, Naming>
  /** Where the values of other arguments come from, for completions. */
  sources?: Record<string, ValueSource>
  /** Returns the actor, where it is not the operator. */
  actAs?(gateway: Gateway, operator: Actor, flags: Flags): Actor | Promise<Actor>
  /** What follows `No` where a verb lists nothing, if that is not the noun. */
  lists?: Record<string, string>
  /** What they need of the data directory and of the providers' secrets. */
  needs?: Needs | ((flags: Flags) => Needs)
  /** Returns the rows where the gateway cannot be opened; undefined where that is a failure. */
  answerUnopened?(thrown: unknown): { data: unknown[] } | undefined
}

/** Creates the command of a noun, or of a group of its verbs. */
export function defineNoun(name: string, description: string, verbs: Command[]): Command {
  const noun = new Command(name).description(description)
  for (const verb of verbs) noun.addCommand(verb)
  return noun
}

/**
 * Creates a function that defines verbs over one core module, which `load` imports when a verb runs
 * and not before. A verb has a name with its arguments, a description, its options, and the core
 * function that it calls. `--json` prints exactly what that function returns. Otherwise a verb
 * prints the fields of the answer's `data`, or what `printAs` says, which lists must have. Nothing
 * is printed of an answer that is undefined: the function has printed.
 */
export const defineVerbs =
  <Core>(load: () => Promise<Core>, shared: Shared = {}) =>
  <Signature extends string, Answer, KnownFlags = Flags>(
    signature: Signature,
    description: string,
    fields: Fields[],
    choose: (
      core: Core,
      flags: KnownFlags,
    ) => CoreCall<ArgumentTypes<Signature>, Answer> | InputCall<ArgumentTypes<Signature>, Answer>,
  ): VerbCommand<Answer, PrintContext<Core, ArgumentTypes<Signature>>> => {
    const verb = {
      load,
      fields,
      choose,
      signature,
      printer: printData,
      ...shared,
    } as unknown as Verb
    const command = createCommand(signature, description, fields, shared)
    command.action(() => {
      const noun = command.parent?.parent ? command.parent.name() : command.name()
      const own = shared.lists?.[command.name()]
      verb.none = own === undefined ? `No ${noun} found` : `No ${own}`
      return runVerb(verb, command.opts<Flags>(), command.processedArgs)
    })
    const printAs = (printer: Verb['printer'], hides?: Verb['hides']) => {
      Object.assign(verb, { printer }, hides && { hides })
      return command
    }
    // The compiler cannot tell which form of the type applies.
    return Object.assign(command, { printAs }) as never
  }

function createCommand(
  signature: string,
  description: string,
  fields: Fields[],
  { args: meanings = {}, names = {}, sources = {} }: Shared,
): Command {
  const [name, ...args] = signature.split(' ')
  const command = addCommonOptions(new Command(name).description(description))
  if (isRemoval(signature)) command.option('--yes', 'do not ask')
  for (const arg of args) {
    const name = arg.replace(/[^\w-]/g, '')
    const argument = new Argument(arg, meanings[name])
    const source = isCreation(signature) ? undefined : (names[name] ?? sources[name])
    command.addArgument(source ? suggest(argument, source) : argument)
  }
  for (const option of fields.flatMap(({ options }) => options)) command.addOption(option)
  return command
}

/** A verb at run time. Its types were checked where it was defined. */
interface Verb extends Shared {
  signature: string
  /** Says that a list has no rows. */
  none: string
  load(): Promise<unknown>
  fields: Fields[]
  choose(core: unknown, flags: Flags): CoreCall<unknown[], unknown> | InputCall<unknown[], unknown>
  printer:
    | ((answer: unknown, context: PrintContext<unknown, unknown[]>) => void | Promise<void>)
    | Columns<unknown, unknown>
  hides?: DescribeHidden<unknown, PrintContext<unknown, unknown[]>>
}

// What is created has a new name.
const isCreation = (signature: string): boolean => signature.startsWith('create ')

async function runVerb(verb: Verb, flags: Flags, args: unknown[]): Promise<void> {
  await performVerb(verb, flags, args).catch(thrown => {
    throw nameFlag(verb.fields, flags, thrown)
  })
}

/** Returns an error about a field as one about the flag that filled it, or could have. */
function nameFlag(fields: Fields[], given: Flags, thrown: unknown): unknown {
  const field = thrown instanceof GatewayError ? String(thrown.metadata.field ?? '') : ''
  const [name = ''] = field.split('.')
  const filling = fields.filter(({ flags }) => flags && Object.hasOwn(flags, name))
  const isGiven = ({ options }: Fields) =>
    options.some(option => given[option.attributeName()] !== undefined)
  const flag = (filling.findLast(isGiven) ?? filling.at(-1))?.flags?.[name]
  if (!(thrown instanceof GatewayError) || !flag || !thrown.message.startsWith(name)) return thrown
  const said = flag + thrown.message.slice(name.length)
  const isPlain = filling.some(({ options }) => options.some(option => isPlainFlag(option, flag)))
  return thrown.with({ message: isPlain ? said.replace('expected "true"', 'expected it') : said })
}

/** Whether an option is this flag, and takes no value. */
const isPlainFlag = (option: Option, flag: string): boolean =>
  option.long === flag && option.isBoolean()

async function performVerb(verb: Verb, flags: Flags, given: unknown[]): Promise<void> {
  const core = await verb.load()
  const chosen = verb.choose(core, flags)
  const { run, schema } = typeof chosen === 'function' ? { run: chosen } : chosen
  const fill = await prepareInput(verb, flags, given, schema)
  const pages = verb.fields.find(field => field.pages)?.pages
  const task = async (gateway: Gateway, operator: Actor) => {
    const actor = (await verb.actAs?.(gateway, operator, flags)) ?? operator
    const named = await nameArguments(verb, gateway, actor, given)
    if (isRemoval(verb.signature) && !(await confirmRemoval(verb, flags, named))) return
    const args = named.map(({ id }) => id)
    const call = async (input: unknown[]) => run(gateway, actor, ...args, ...input)
    const answer = await readList(pages, flags, await fill(gateway), call)
    if (answer === undefined) return
    const printList = (headings: string[], rows: Cell[][]) =>
      rows.length > 0 ? printTable(headings, rows) : printNote(verb.none)
    const name = named[0]?.match?.isWhole ? given[0] : args[0]
    const context = { core, gateway, actor, flags, args, named: String(name), printList }
    await printResult(flags, answer, async () => {
      await printAnswer(verb.printer, answer, context)
      printRest(answer, flags, pages)
      for (const hidden of (await verb.hides?.(answer, context)) ?? []) printNote(hidden)
    })
  }
  const needs = typeof verb.needs === 'function' ? verb.needs(flags) : verb.needs
  await withGateway(flags, task, needs).catch(async thrown => {
    const { printer } = verb
    const answer = verb.answerUnopened?.(thrown)
    // A printer that is a function may want the gateway.
    if (!answer || typeof printer === 'function') throw thrown
    await printResult(flags, answer, () =>
      printRows(printer, answer.data, { printList: printTable }),
    )
  })
}

/**
 * Reads the fields that options fill, and returns a function that adds those that need a gateway.
 * Throws what `parseInput` does before a gateway is opened, unless a field needs one.
 */
async function prepareInput(
  { fields, signature }: Verb,
  flags: Flags,
  args: unknown[],
  schema: TSchema | undefined,
) {
  const values: Record<string, unknown> = {}
  for (const { read } of fields) Object.assign(values, removeUndefined(await read?.(flags, args)))
  const check = () => {
    if (signature.startsWith('update ') && fields.length > 0) refuseNoChange(fields, values)
    return schema ? [parseInput(schema, values)] : []
  }
  const finders = fields.flatMap(({ find }) => find ?? [])
  if (finders.length === 0) {
    const input = check()
    return () => input
  }
  return async (gateway: Gateway) => {
    for (const find of finders)
      Object.assign(values, removeUndefined(await find(gateway, flags, args)))
    return check()
  }
}

/** Throws 400 for an update that names no change: it would only look as if it had done something. */
function refuseNoChange(fields: Fields[], values: object): void {
  if (Object.keys(values).length > 0) return
  const flags = fields.flatMap(({ options }) => options.flatMap(({ long }) => long ?? []))
  throw invalid(`update: expected a change: ${flags.join(', ')}`)
}

const removeUndefined = (values: Record<string, unknown> = {}): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

function printAnswer(
  printer: Verb['printer'],
  answer: unknown,
  context: PrintContext<unknown, unknown[]>,
): void | Promise<void> {
  if (typeof printer === 'function') return printer(answer, context)
  printRows(printer, (answer as { data: unknown[] }).data, context)
}

function printRows<Row, Context extends Pick<PrintContext<unknown, unknown>, 'printList'>>(
  columns: Columns<Row, Context>,
  rows: Row[],
  context: Context,
): void {
  const cells = Object.values(columns)
  context.printList(
    Object.keys(columns),
    rows.map(row => cells.map(cell => cell(row, context))),
  )
}

/** Prints the fields of an answer's `data`. */
export const printData = ({ data }: { data: object }): void => printFields({ ...data })

/** Prints that the thing named by the first argument is deleted. */
export const printDeleted = (_: unknown, { named }: { named: string }): void =>
  print(`Deleted ${named}`)

/** The arguments of a verb: `delete <id>`, and what they name. */
interface NamingVerb {
  signature: string
  names?: Record<string, Naming>
}

/** An argument as the core takes it, and what it names, if that is known. */
interface NamedArgument {
  id: unknown
  match: Match | undefined
}

/**
 * Finds what each argument of a line names. What it creates has no id yet. Throws 400 where several
 * things are meant.
 */
function nameArguments(
  { signature, names = {} }: NamingVerb,
  gateway: Gateway,
  actor: Actor,
  args: unknown[],
): Promise<NamedArgument[]> {
  const [verb, ...words] = signature.split(' ')
  return Promise.all(
    args.map(async (id, i) => {
      const naming = names[words[i]?.replace(/[^\w-]/g, '') ?? '']
      if (!naming || verb === 'create' || typeof id !== 'string') return { id, match: undefined }
      const match = await findNamed(naming, gateway, actor, id)
      return { id: match?.id ?? id, match }
    }),
  )
}

const REMOVALS = ['delete', 'revoke', 'deactivate', 'kill', 'drop']

/** Whether a verb removes what its first argument names, so that it asks before. */
const isRemoval = (signature: string): boolean => REMOVALS.includes(signature.split(' ')[0] ?? '')

/**
 * Asks whether to remove what the first argument names; `--yes` answers yes. Returns whether to go
 * on. Throws 400 where there is neither `--yes` nor a terminal.
 */
async function confirmRemoval(
  { signature, names = {} }: NamingVerb,
  flags: Flags,
  [named]: NamedArgument[],
): Promise<boolean> {
  if (flags.yes) return true
  const [verb = '', word = ''] = signature.split(' ')
  const noun = names[word.replace(/[^\w-]/g, '')]?.noun
  const { describeNamed } = await import('./names.ts')
  const what = named?.match ? describeNamed(named.match) : String(named?.id)
  const wants = await confirm(`${capitalize(verb)} ${noun ? `the ${noun} ` : ''}${what}?`)
  if (!wants) {
    printNote('Nothing was changed')
    process.exitCode = 1
  }
  return wants
}

const capitalize = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
