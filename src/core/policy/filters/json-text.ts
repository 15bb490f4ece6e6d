import { parseExact } from '../../kernel/json.ts'
import type { Span } from '../patterns/machine.ts'
import { redacted, replacementsOf } from './redact.ts'
import type { Match } from './rule.ts'

/** A string, a number or a literal in a JSON text, and where it stands. */
interface Token extends Span {
  isText: boolean
  isName: boolean
}

/** Finds the matches of rules in a text, synchronously or not. */
export type Search = (text: string) => Match[] | Promise<Match[]>

/** The JSON text after redaction, and the matches found in it. */
export interface Screened {
  text: string
  matches: Match[]
}

/**
 * Searches a JSON text both as written and with each string decoded, so that `\u0040` hides
 * nothing. JSON stays JSON: only strings and numbers are replaced, and where a match covers several
 * (a name and its value), the values.
 */
export async function screenedJson(json: string, search: Search): Promise<Screened> {
  const written = await search(json)
  const tokens = isJson(json) ? tokensOf(json) : []
  if (tokens.length === 0) return { text: redacted(json, written), matches: written }
  const meant = await meantMatches(json, tokens, written, search)
  return {
    text: rewritten(json, tokens, written, meant.byToken),
    matches: [...written, ...meant.hidden],
  }
}

function isJson(text: string): boolean {
  try {
    parseExact(text)
    return true
  } catch {
    return false
  }
}

/**
 * Searches each decoded string. `hidden` are the matches that were not visible in the JSON text.
 */
async function meantMatches(json: string, tokens: Token[], written: Match[], search: Search) {
  const byToken = new Map<Token, Match[]>()
  const hidden: Match[] = []
  for (const token of tokens) {
    if (!token.isText) continue
    const meaning = meaningOf(json, token)
    const matches = await search(meaning)
    if (matches.length === 0) continue
    byToken.set(token, matches)
    hidden.push(
      ...matches
        .filter(match => !isSeen(match, token, written))
        .map(match => ({ ...match, found: meaning.slice(match.start, match.end) })),
    )
  }
  return { byToken, hidden }
}

const isSeen = ({ rule }: Match, { start, end }: Span, written: Match[]): boolean =>
  written.some(one => one.rule === rule && one.start < end && one.end > start)

const meaningOf = (json: string, { start, end }: Span): string =>
  String(JSON.parse(json.slice(start, end)))

function rewritten(
  json: string,
  tokens: Token[],
  written: Match[],
  byToken: Map<Token, Match[]>,
): string {
  const replacements = replacementsOf(written)
  let result = ''
  let from = 0
  for (const token of tokens) {
    const over = replacements.find(one => one.start < token.end && one.end > token.start)
    const meant = byToken.get(token) ?? []
    if (!over && meant.length === 0) continue
    result += json.slice(from, token.start) + tokenText(json, token, meant, over)
    from = token.end
  }
  return result + json.slice(from)
}

function tokenText(
  json: string,
  token: Token,
  meant: Match[],
  over: (Span & { label: string }) | undefined,
): string {
  const own = json.slice(token.start, token.end)
  if (token.isText && replacementsOf(meant).length > 0)
    return JSON.stringify(redacted(meaningOf(json, token), meant))
  if (!over) return own
  const isInside = over.start >= token.start && over.end <= token.end
  if (token.isName && !isInside) return own
  return token.isText ? JSON.stringify(textWithout(json, token, over)) : JSON.stringify(over.label)
}

/**
 * Returns a string in which a part of the JSON text was replaced. With escapes in it the exact part
 * is unknown, so all of it is.
 */
function textWithout(json: string, { start, end }: Token, over: Span & { label: string }): string {
  const inner = json.slice(start + 1, end - 1)
  if (inner.includes('\\')) return over.label
  return (
    inner.slice(0, Math.max(0, over.start - start - 1)) +
    over.label +
    inner.slice(Math.max(0, over.end - start - 1))
  )
}

/** Lists every string, number and literal of a JSON text, in order. */
function tokensOf(json: string): Token[] {
  const tokens: Token[] = []
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code !== QUOTE && !isScalar(code)) continue
    const end = code === QUOTE ? endOfText(json, i) : endOfScalar(json, i)
    tokens.push({
      start: i,
      end,
      isText: code === QUOTE,
      isName: code === QUOTE && isFollowedByColon(json, end),
    })
    i = end - 1
  }
  return tokens
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

function endOfText(json: string, start: number): number {
  for (let i = start + 1; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === BACKSLASH) i += 1
    else if (code === QUOTE) return i + 1
  }
  return json.length
}

const isScalar = (code: number) =>
  code === 0x2d || (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x7a)

function endOfScalar(json: string, start: number): number {
  let end = start + 1
  while (end < json.length && /[\w.+-]/.test(json.charAt(end))) end += 1
  return end
}

function isFollowedByColon(json: string, from: number): boolean {
  let at = from
  while (/\s/.test(json.charAt(at))) at += 1
  return json.charAt(at) === ':'
}
