import type { Gateway } from '../app/gateway.ts'
import type { Actor } from '../resources/actor.ts'
import { confirm } from './confirm.ts'
import type { Flags } from './fields.ts'
import { findNamed, type Match, type Naming } from './names.ts'
import { printNote } from './output.ts'

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
export function nameArguments(
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
export const isRemoval = (signature: string): boolean =>
  REMOVALS.includes(signature.split(' ')[0] ?? '')

/**
 * Asks whether to remove what the first argument names; `--yes` answers yes. Returns whether to go
 * on. Throws 400 where there is neither `--yes` nor a terminal.
 */
export async function confirmRemoval(
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
