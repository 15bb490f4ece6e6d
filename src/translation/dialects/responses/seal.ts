import { type Json, parseObject, readObjects } from '../../../base/json.ts'
import { isResponsesFormat, type ReasoningDetail } from '../../../language/reasoning.ts'

/**
 * The form in which entries of reasoning travel in `encrypted_content`, the one field of a
 * reasoning item that every client sends back. Texts stay outside, where clients show them: the
 * seal has a digest of each, so that a changed one is noticed.
 */

/** No provider's encrypted content contains a dot. */
const PREFIX = 'sealed.'

/** The members of entries that hold their text. */
const TEXTS: Record<string, 'text' | 'summary'> = {
  'reasoning.text': 'text',
  'reasoning.summary': 'summary',
}

/** Returns the member that holds the text of such an entry; undefined for opaque ones. */
export const findTextField = ({ type }: Json): 'text' | 'summary' | undefined =>
  Object.hasOwn(TEXTS, String(type)) ? TEXTS[String(type)] : undefined

/** Reads the text of an entry; empty if it has none. */
export function readText(entry: Json): string {
  const text = entry[findTextField(entry) ?? '']
  return typeof text === 'string' ? text : ''
}

/** The texts of a reasoning item, in its two lists. */
type ReasoningTexts = Record<'summary' | 'content', string[]>

/**
 * Returns the list that shows the text of an entry. Clients show the `summary`, so it has the
 * thinking of every model except those whose providers keep the two apart.
 */
export const pickList = ({ type, format }: Json): keyof ReasoningTexts =>
  type === 'reasoning.text' && isResponsesFormat(format) ? 'content' : 'summary'

/** Seals entries. Their texts are left out. */
export const sealEntries = (entries: ReasoningDetail[]): string =>
  PREFIX + Buffer.from(JSON.stringify({ entries: entries.map(sealEntry) })).toString('base64url')

function sealEntry(entry: ReasoningDetail): Json {
  const field = findTextField(entry)
  if (!field) return entry
  const { [field]: _, ...rest } = entry
  const text = readText(entry)
  return text === '' ? rest : { ...rest, digest: computeDigest(text) }
}

/** Whether this is sealed rather than a provider's own. */
export const isSealed = (encrypted: string): boolean => encrypted.startsWith(PREFIX)

/**
 * Opens a seal, and puts the texts back in their order. Undefined if either has been changed since
 * it was sealed.
 */
export function openSeal(seal: string, texts: ReasoningTexts): ReasoningDetail[] | undefined {
  const json = Buffer.from(seal.slice(PREFIX.length), 'base64url').toString()
  const sealed = readObjects(parseObject(json)?.entries)
  const left = { summary: [...texts.summary], content: [...texts.content] }
  const entries = sealed.map(entry => openEntry(entry, left[pickList(entry)]))
  const isWhole = sealed.length > 0 && left.summary.length + left.content.length === 0
  return isWhole && entries.every(entry => entry !== undefined) ? entries : undefined
}

function openEntry({ digest, ...entry }: Json, texts: string[]): ReasoningDetail | undefined {
  if (typeof entry.type !== 'string') return undefined
  const opened = { ...entry, type: entry.type }
  const field = findTextField(entry)
  if (!field) return opened
  const text = digest === undefined ? '' : texts.shift()
  if (text === undefined || (digest !== undefined && computeDigest(text) !== digest))
    return undefined
  return { ...opened, [field]: text }
}

const computeDigest = (text: string): string =>
  Bun.CryptoHasher.hash('sha256', text, 'base64url').slice(0, 22)
