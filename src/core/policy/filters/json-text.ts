import { parseExact } from '../../kernel/json.ts'
import type { Span } from '../patterns/machine.ts'
import { listReplacements, redactText } from './redact.ts'
import type { Match } from './rule.ts'

/** A string, a number or a literal in a JSON text, and where it stands. */
interface JsonToken extends Span {
  isText: boolean
  isName: boolean
}

/** Finds the matches of rules in a text, synchronously or not. */
export type Search = (text: string) => Match[] | Promise<Match[]>

/** The JSON text after redaction, and the matches found in it. */
export interface FilteredText {
  text: string
  matches: Match[]
}

/**
 * Searches a JSON text both as written and with each string decoded, so that `\u0040` hides
 * nothing. JSON stays JSON: only strings and numbers are replaced, and where a match covers several
 * (a name and its value), the values.
 */
export async function redactJson(json: string, search: Search): Promise<FilteredText> {
  const rawMatches = await search(json)
  const tokens = isJson(json) ? tokenizeJson(json) : []
  if (tokens.length === 0) return { text: redactText(json, rawMatches), matches: rawMatches }
  const decoded = await findDecodedMatches(json, tokens, rawMatches, search)
  return {
    text: rewriteJson(json, tokens, rawMatches, decoded.byToken),
    matches: [...rawMatches, ...decoded.hidden],
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
async function findDecodedMatches(
  json: string,
  tokens: JsonToken[],
  rawMatches: Match[],
  search: Search,
) {
  const byToken = new Map<JsonToken, Match[]>()
  const hidden: Match[] = []
  for (const token of tokens) {
    if (!token.isText) continue
    const text = decodeToken(json, token)
    const matches = await search(text)
    if (matches.length === 0) continue
    byToken.set(token, matches)
    hidden.push(
      ...matches
        .filter(match => !isVisible(match, token, rawMatches))
        .map(match => ({ ...match, matchedText: text.slice(match.start, match.end) })),
    )
  }
  return { byToken, hidden }
}

const isVisible = ({ rule }: Match, { start, end }: Span, rawMatches: Match[]): boolean =>
  rawMatches.some(match => match.rule === rule && match.start < end && match.end > start)

const decodeToken = (json: string, { start, end }: Span): string =>
  String(JSON.parse(json.slice(start, end)))

function rewriteJson(
  json: string,
  tokens: JsonToken[],
  rawMatches: Match[],
  byToken: Map<JsonToken, Match[]>,
): string {
  const replacements = listReplacements(rawMatches)
  let result = ''
  let from = 0
  for (const token of tokens) {
    const replacement = replacements.find(
      candidate => candidate.start < token.end && candidate.end > token.start,
    )
    const decodedMatches = byToken.get(token) ?? []
    if (!replacement && decodedMatches.length === 0) continue
    result += json.slice(from, token.start) + renderToken(json, token, decodedMatches, replacement)
    from = token.end
  }
  return result + json.slice(from)
}

function renderToken(
  json: string,
  token: JsonToken,
  decodedMatches: Match[],
  replacement: (Span & { label: string }) | undefined,
): string {
  const original = json.slice(token.start, token.end)
  if (token.isText && listReplacements(decodedMatches).length > 0)
    return JSON.stringify(redactText(decodeToken(json, token), decodedMatches))
  if (!replacement) return original
  const isInside = replacement.start >= token.start && replacement.end <= token.end
  if (token.isName && !isInside) return original
  return token.isText
    ? JSON.stringify(replacePart(json, token, replacement))
    : JSON.stringify(replacement.label)
}

/**
 * Returns a string in which a part of the JSON text was replaced. With escapes in it the exact part
 * is unknown, so all of it is.
 */
function replacePart(
  json: string,
  { start, end }: JsonToken,
  replacement: Span & { label: string },
): string {
  const inner = json.slice(start + 1, end - 1)
  if (inner.includes('\\')) return replacement.label
  return (
    inner.slice(0, Math.max(0, replacement.start - start - 1)) +
    replacement.label +
    inner.slice(Math.max(0, replacement.end - start - 1))
  )
}

/** Lists every string, number and literal of a JSON text, in order. */
function tokenizeJson(json: string): JsonToken[] {
  const tokens: JsonToken[] = []
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code !== QUOTE && !isScalar(code)) continue
    const end = code === QUOTE ? findTextEnd(json, i) : findScalarEnd(json, i)
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

function findTextEnd(json: string, start: number): number {
  for (let i = start + 1; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === BACKSLASH) i += 1
    else if (code === QUOTE) return i + 1
  }
  return json.length
}

const isScalar = (code: number) =>
  code === 0x2d || (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x7a)

function findScalarEnd(json: string, start: number): number {
  let end = start + 1
  while (end < json.length && /[\w.+-]/.test(json.charAt(end))) end += 1
  return end
}

function isFollowedByColon(json: string, from: number): boolean {
  let at = from
  while (/\s/.test(json.charAt(at))) at += 1
  return json.charAt(at) === ':'
}
