import { GatewayError } from '../errors.ts'
import type { Passage } from '../language/passage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Match, OpenedRule } from '../policy/filters/rule.ts'
import type { Filters } from '../policy/filters.ts'
import { Filtering } from './filters/filtering.ts'
import { type ContentFiltering, kinds } from './kinds.ts'
import type { Run } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** What the filters made of a call: as it may be sent, or why it may not. */
export interface Filtered<K extends Kind> {
  call: Work[K]['call']
  error: GatewayError | null
  filtering: Filtering | null
}

/** Has the policy's filters look at the call: it goes on as they leave it, or is blocked. At once where nothing looks. Never throws. */
export function filterRun<K extends Kind>(_: InferenceWorld, run: Run<K>): void | Promise<void> {
  const { filters } = run.policy
  if (filters) return filterCall(run, filters)
}

async function filterCall<K extends Kind>(run: Run<K>, filters: Promise<Filters>): Promise<void> {
  const { call, error, filtering } = await filteredCall(run.kind, run.call, filters)
  run.call = call
  run.blocked = error
  run.filtering = filtering
}

/** The call as the filters leave it: redacted, or refused with 403. What is only flagged is noted and stays. Never throws. */
async function filteredCall<K extends Kind>(kind: K, call: Work[K]['call'], filters: Promise<Filters>): Promise<Filtered<K>> {
  const { rewriteTexts }: ContentFiltering<K> = kinds[kind].filtering
  const blocking: Blocking[] = []
  let filtering: Filtering | null = null
  try {
    const noted = new Filtering(await filters)
    filtering = noted
    const left = await rewriteTexts(call, passage => rewordedPassage(passage, noted, blocking))
    return { call: left, error: blocking.length > 0 ? blocked(blocking) : null, filtering }
  } catch (thrown) {
    return { call, error: GatewayError.from(thrown), filtering }
  }
}

/** What blocks a call, and the caller's own words that do. */
interface Blocking {
  rule: OpenedRule
  found: string
}

async function rewordedPassage(passage: Passage, filtering: Filtering, blocking: Blocking[]): Promise<string[]> {
  const screen = filtering.filters.asked(passage.role)
  if (!screen) return passage.pieces
  const { screenedPassage } = await import('../policy/filters/passage.ts')
  const { pieces, matches, text } = await screenedPassage(passage, screen)
  for (const match of matches) noteMatch(match, text, filtering, blocking)
  return pieces
}

function noteMatch({ rule, start, end, found = '' }: Match, text: string, filtering: Filtering, blocking: Blocking[]): void {
  filtering.note(rule, 'input')
  if (rule.action === 'block') blocking.push({ rule, found: found || text.slice(start, end) })
}

/** What a caller is told whose words blocked his call (wire reference H.6). The phrases of an injection are his own, and shown to him. */
function blocked(blocking: Blocking[]): GatewayError {
  const injections = blocking.filter(({ rule }) => rule.filter === 'regex-prompt-injection')
  const rule = (injections[0] ?? blocking[0])?.rule
  const message = rule?.blocked ?? `Request blocked by content filter: ${rule?.name ?? '[BLOCKED]'}`
  return new GatewayError('permission_denied', message, injections.length > 0 ? { metadata: { patterns: phrasesOf(injections) } } : {})
}

const MOST_PHRASES = 20
const LONGEST_PHRASE = 200

const phrasesOf = (blocking: Blocking[]): string[] =>
  [...new Set(blocking.map(({ found }) => found.slice(0, LONGEST_PHRASE)))].slice(0, MOST_PHRASES)
