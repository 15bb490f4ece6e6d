import { isObject, isRawJson, type Json } from '../../kernel/json.ts'
import { runInTurns } from '../../kernel/turns.ts'
import type { FilterSet } from '../../policy/filters/filter-set.ts'
import type { Finding } from '../../telemetry/generations.ts'
import { answerBlocked, type Filtering } from './filtering.ts'

/**
 * Filters what a model hands to a tool before the tool has it: whoever the tool asks is a receiver
 * as a provider is, and the words are the model's. So rules of calls hold, whoever's words they are
 * for, and those of answers. Each text is read as it stands and as its receiver may read it. Returns
 * the input as they leave it. Throws 403 for what is blocked.
 */
export async function filterToolInput(filtering: Filtering, input: Json): Promise<Json> {
  const { filters } = filtering
  const calls = filters.getInputFilters('system')
  const filtered = calls ? await filterWith(calls, filtering, 'input', input) : input
  const answers = filters.outputFilters
  return answers ? filterWith(answers, filtering, 'output', filtered) : filtered
}

async function filterWith(
  filters: FilterSet,
  filtering: Filtering,
  where: Finding['where'],
  input: Json,
): Promise<Json> {
  const filter = async <Value>(value: Value): Promise<Value> => {
    const { value: left, found } = await runInTurns(filters.filterUnread(value))
    for (const { match } of found) {
      filtering.noteMatch(match.rule, where)
      if (match.rule.action === 'block') throw answerBlocked(match.rule)
    }
    return left
  }
  const disguised = async (text: string): Promise<string> => {
    const plain = await readAsReceiver(text)
    if (plain === text) return text
    const [left = plain] = await filter([plain])
    return left === plain ? text : left
  }
  return (await mapTexts(await filter(input), disguised)) as Json
}

/** Returns a copy in which each text is mapped, as a value and as a name. */
async function mapTexts(value: unknown, map: (text: string) => Promise<string>): Promise<unknown> {
  if (typeof value === 'string') return map(value)
  if (Array.isArray(value)) return Promise.all(value.map(item => mapTexts(item, map)))
  if (!isObject(value) || isRawJson(value)) return value
  const entries = Object.entries(value).map(async ([name, member]) => [
    await map(name),
    await mapTexts(member, map),
  ])
  return Object.fromEntries(await Promise.all(entries))
}

/** How often a text may be encoded within another encoding. */
const MOST_ROUNDS = 3

/**
 * Returns a text as who receives it may read it: without escapes of URLs, HTML and JSON, with tags of
 * Unicode as the letters that models take them for, and letters for those that look like them.
 */
async function readAsReceiver(text: string): Promise<string> {
  let plain = text
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const next = decodeOnce(plain)
    if (next === plain) break
    plain = next
  }
  const { foldText } = await import('../../policy/filters/regex-prompt-injection/folded-text.ts')
  return foldText(plain)?.text ?? plain
}

const decodeOnce = (text: string): string =>
  [decodePercents, decodeReferences, decodeJsonEscapes, decodeTags].reduce(
    (decoded, decode) => decode(decoded),
    text,
  )

const decodePercents = (text: string): string =>
  text.includes('%')
    ? text.replace(/(?:%[0-9a-f]{2})+/gi, run =>
        Buffer.from(run.replaceAll('%', ''), 'hex').toString(),
      )
    : text

const NAMED: Record<string, string> = {
  ...{ lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ', commat: '@', period: '.' },
  ...{ hyphen: '-', lowbar: '_', colon: ':', sol: '/', num: '#', plus: '+' },
}

const decodeReferences = (text: string): string =>
  text.includes('&')
    ? text.replace(
        /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));?/gi,
        (whole, ten?: string, hex?: string, name?: string) => {
          if (name !== undefined) return NAMED[name.toLowerCase()] ?? whole
          return toCharacter(
            ten === undefined ? Number.parseInt(hex ?? '', 16) : Number(ten),
            whole,
          )
        },
      )
    : text

const decodeJsonEscapes = (text: string): string =>
  text.includes('\\')
    ? text.replace(
        /\\(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|x([0-9a-f]{2})|([nrt/"\\]))/gi,
        toEscaped,
      )
    : text

const CONTROLS: Record<string, string> = { n: '\n', r: '\r', t: '\t' }

function toEscaped(whole: string, four?: string, many?: string, two?: string, sign?: string) {
  if (sign !== undefined) return CONTROLS[sign.toLowerCase()] ?? sign
  return toCharacter(Number.parseInt(four ?? many ?? two ?? '', 16), whole)
}

const toCharacter = (point: number, otherwise: string): string =>
  point > 0 && point <= 0x10_ff_ff ? String.fromCodePoint(point) : otherwise

/** Tags stand for the characters of ASCII in their order. */
const decodeTags = (text: string): string =>
  text.replace(/[\u{e0020}-\u{e007e}]/gu, tag =>
    String.fromCharCode((tag.codePointAt(0) ?? 0) - 0xe0000),
  )
