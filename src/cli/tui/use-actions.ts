import type { Found } from './actions/asking.ts'
import { identifyRow, Left, nameRow, type Row } from './actions/asking.ts'
import { ACTIONS, NOUN_ACTIONS, type NounAction } from './actions/table.ts'
import type { Action } from './keys.ts'
import type { Change, Noun, Source } from './source.ts'
import { useShell } from './use-shell.ts'

const isNounAction = (action: Action): action is Action & NounAction =>
  (ACTIONS as readonly string[]).includes(action)

/** What a list does once something was changed. */
interface Listed {
  reload(): Promise<void>
  /** Shows a text that is not shown again. */
  reveal?(text: string): void
}

/**
 * Changes what a noun lists: asks, confirms, changes and reads again. Returns a function that tells
 * whether an action was about that. What a noun does not know is said in a sentence.
 */
export function useActions(source: Source, noun: Noun, { reload, reveal }: Listed) {
  const { ask, attempt, confirm, notify } = useShell()
  const demand = async (...question: Parameters<typeof ask>) => {
    const answer = await ask(...question)
    if (answer === null) throw new Left()
    return answer.trim()
  }
  const asking = {
    ask: (question: string, initial?: string) => demand(question, initial),
    async askName(question: string, initial?: string) {
      const name = await demand(question, initial)
      if (name === '') throw new Error('Expected a name')
      return name
    },
    askSecret: (question: string) => demand(question, '', undefined, true),
    find: (text: string, ...nouns: Noun[]) => findRows(source, text, nouns),
  }
  const perform = async (action: NounAction, row: Row) => {
    const prepare = NOUN_ACTIONS[noun][action]
    if (typeof prepare === 'string') return notify(prepare)
    const { question, changes, done } = await prepare(row, asking)
    if (!(await confirm(question))) return
    try {
      for (const change of changes) {
        const shown = await source.change(change)
        if (shown !== null) reveal?.(shown)
      }
    } finally {
      await reload()
    }
    const warning = await findWarning(source, changes)
    notify(warning ?? done, warning === undefined ? 'good' : 'warn')
  }
  return (action: Action, row: object | undefined): boolean => {
    if (!isNounAction(action)) return false
    if (row || !needsRow(action))
      attempt(() => perform(action, (row ?? {}) as Row).catch(ignoreLeft))
    return true
  }
}

function ignoreLeft(thrown: unknown): void {
  if (!(thrown instanceof Left)) throw thrown
}

/**
 * Finds what a text names among the rows of a source: each piece by its id or a name, else by a
 * beginning of one that only one has. Throws a sentence for a piece that names none or several,
 * and for no piece at all.
 */
async function findRows(source: Source, text: string, nouns: Noun[]): Promise<[Found, ...Found[]]> {
  const lists = await Promise.all(nouns.map(async noun => toFound(noun, await source.list(noun))))
  const all = lists.flat()
  const pieces = text.split(',').map(piece => piece.trim())
  const [first, ...others] = pieces.filter(Boolean).map(piece => findOne(all, piece, nouns))
  if (!first) throw new Error('Expected a name, or several with commas')
  return [first, ...others]
}

type Named = Found & { names: string[] }

const toFound = (noun: Noun, rows: object[]): Named[] =>
  (rows as Row[]).map(row => {
    const id = identifyRow(noun, row)
    const names = [id, row.name, row.slug, row.email, row.label].filter(
      one => typeof one === 'string',
    )
    return { noun, id, name: nameRow(row), names }
  })

function findOne(all: Named[], piece: string, nouns: Noun[]): Found {
  const exact = all.filter(({ names }) => names.includes(piece))
  const found =
    exact.length > 0 ? exact : all.filter(({ names }) => names.some(name => name.startsWith(piece)))
  const [only, ...others] = found
  const listed = nouns.join(' or ')
  if (!only) throw new Error(`${piece}: found none among the ${listed}`)
  if (others.length > 0) throw new Error(`${piece}: expected one, found ${found.length} ${listed}`)
  return only
}

/** Returns what destinations that were created or changed warn of: what else is off. */
async function findWarning(source: Source, changes: Change[]): Promise<string | undefined> {
  const changed = changes.filter(({ noun }) => noun === 'destinations')
  if (changed.length === 0) return undefined
  const rows = (await source.list('destinations')) as Row[]
  const isChanged = (row: Row) =>
    changed.some(({ id, input }) => row.id === id || row.name === (input as Row).name)
  const warnings = rows.filter(isChanged).map(({ warning }) => warning)
  return warnings.find(warning => typeof warning === 'string')
}

/** Whether an action is about a row, and not about a new one. */
const needsRow = (action: NounAction): boolean => action !== 'create'
