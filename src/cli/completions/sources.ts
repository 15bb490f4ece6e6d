import type { Argument, Option } from 'commander'
import { KEYS, type Naming, WORKSPACES } from '../names.ts'

/** Where values come from: a noun's names, what the catalogue has, or files. */
export type ValueSource = Naming | 'models' | 'every model' | 'providers' | 'endpoints' | 'files'

const SOURCES = new WeakMap<Option | Argument, ValueSource>()

/** Says where the values of an option or argument come from, and returns it. */
export function suggest<Described extends Option | Argument>(
  described: Described,
  source: ValueSource,
): Described {
  SOURCES.set(described, source)
  return described
}

/** Finds where the values of an option or argument come from: as was said, or by what it is called. */
export function findSource(described: Option | Argument): ValueSource | undefined {
  const said = SOURCES.get(described)
  if (said) return said
  if (!('flags' in described)) return ARGUMENTS[described.name()]
  return OPTIONS[described.name()] ?? PLACEHOLDERS[readPlaceholder(described)]
}

/** Whether an option takes several values with commas between. */
export const takesList = (option: Option): boolean => LISTS.has(readPlaceholder(option))

const readPlaceholder = ({ flags }: Option): string => /[<[]([\w-]+)/.exec(flags)?.[1] ?? ''

const LISTS = new Set(['slugs', 'names', 'keys', 'members', 'users', 'groups'])

const ARGUMENTS: Record<string, ValueSource> = {
  model: 'models',
  provider: 'providers',
  endpoint: 'endpoints',
  file: 'files',
  path: 'files',
  request: 'files',
  invoice: 'files',
  export: 'files',
}

const OPTIONS: Record<string, ValueSource> = {
  key: KEYS,
  workspace: WORKSPACES,
  model: 'models',
  models: 'every model',
  'text-model': 'models',
  'image-model': 'models',
  'allow-models': 'every model',
  'ignore-models': 'every model',
  provider: 'providers',
  'allow-providers': 'providers',
  'ignore-providers': 'providers',
}

const PLACEHOLDERS: Record<string, ValueSource> = { file: 'files', dir: 'files', path: 'files' }
