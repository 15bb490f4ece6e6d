import type { Gateway } from '../app/gateway.ts'
import { invalid } from '../base/errors.ts'
import type { Fields, Flags } from './fields.ts'
import { findWorkspaceId } from './options.ts'
import { printNote } from './output.ts'

/** What a core function answers that lists something. */
interface ListAnswer {
  data: unknown[]
  total_count?: number
  next_cursor?: string | null
}

/** Calls a core function with an input, or with none. */
type Call = (input: unknown[]) => Promise<unknown>

/** How many a core function returns at most at once. */
const LARGEST_PAGE = 100

/**
 * Calls a core function that lists something: once, or with `--all` until there is no more. Where
 * the core knows no pages, `--offset` and `--limit` cut one. Throws 400 where they are no numbers
 * of rows.
 */
export async function readList(
  pages: Fields['pages'],
  { all, limit, offset, cursor }: Flags,
  input: unknown[],
  call: Call,
): Promise<unknown> {
  if (pages === 'here') {
    checkCount('--offset', offset, 0)
    checkCount('--limit', limit, 1)
    return cutPage(await call(input), Number(offset ?? 0), Number(limit ?? Infinity))
  }
  if (pages === undefined || !all) return call(input)
  if ([limit, offset, cursor].some(one => one !== undefined))
    throw invalid('--all: expected no --limit, --offset or --cursor beside it')
  return readAllPages(input, call)
}

function checkCount(flag: string, value: unknown, least: number): void {
  if (value !== undefined && (!Number.isInteger(value) || Number(value) < least))
    throw invalid(`${flag}: expected integer from ${least}, found ${value}`)
}

function cutPage(answer: unknown, offset: number, limit: number): unknown {
  if (!isList(answer)) return answer
  const data = answer.data.slice(offset, offset + limit)
  return data.length === answer.data.length
    ? answer
    : { ...answer, data, total_count: answer.data.length }
}

async function readAllPages([query = {}]: unknown[], call: Call): Promise<unknown> {
  const rows: unknown[] = []
  let answer: unknown
  let page: object = { offset: 0 }
  do {
    answer = await call([{ ...(query as object), ...page, limit: LARGEST_PAGE }])
    if (!isList(answer)) return answer
    rows.push(...answer.data)
    page = answer.next_cursor ? { cursor: answer.next_cursor } : { offset: rows.length }
  } while (answer.data.length === LARGEST_PAGE && answer.next_cursor !== null)
  return { ...answer, data: rows }
}

/** Says on stderr what a list has beside the rows shown, and how to see it. */
export function printRest(answer: unknown, flags: Flags, pages: Fields['pages']): void {
  if (!isList(answer) || answer.data.length === 0) return
  const { data, total_count = 0, next_cursor } = answer
  const shown = Number(flags.offset ?? 0) + data.length
  const all = pages === 'core' ? ', --all all' : ''
  if (next_cursor) printNote(`There are more: --cursor ${next_cursor} shows the next${all}`)
  else if (pages !== undefined && !flags.all && total_count > shown)
    printNote(`Shown: ${data.length} of ${total_count}. --offset ${shown} shows the next${all}`)
}

const isList = (answer: unknown): answer is ListAnswer =>
  typeof answer === 'object' && answer !== null && 'data' in answer && Array.isArray(answer.data)

/** Something that is in a workspace. */
interface Placed {
  workspace_id: string
}

/**
 * Creates the sentence of a list about one workspace: how many of its kind are in others. `listAll`
 * returns those of every workspace.
 */
export const describeOthers =
  (listAll: (gateway: Gateway) => Placed[]) =>
  async (_: unknown, { gateway, flags }: { gateway: Gateway; flags: Flags }): Promise<string[]> => {
    const workspace = flags.workspace === undefined ? undefined : String(flags.workspace)
    const own = (await findWorkspaceId(gateway, workspace)) ?? gateway.memory.owner.workspace_id
    const count = listAll(gateway).filter(({ workspace_id }) => workspace_id !== own).length
    return count > 0 ? [`Hidden: ${count} in other workspaces. --workspace shows them`] : []
  }
