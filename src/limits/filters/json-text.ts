import type { Work } from '../../base/turns.ts'
import { decodeToken, isJson, type JsonToken, readTokens } from './json-tokens.ts'
import { MatchIndex } from './match-index.ts'
import {
  listReplacements,
  type Replacement,
  redactText,
  replaceParts,
  TextBuilder,
} from './redact.ts'
import type { Match } from './rule.ts'

/** What finds the matches of rules in a text. */
interface Scanner {
  scan(text: string): Work<Match[]>
  /** Finds what is in it as it stands, and decodes nothing. */
  scanWritten(text: string): Work<Match[]>
}

/** The JSON text after redaction, and the matches found in it. */
export interface FilteredText {
  text: string
  matches: Match[]
}

/**
 * Searches a JSON text both as written and with each string decoded, so that `\u0040` hides
 * nothing. JSON stays JSON: only strings and numbers are replaced, and where a match covers several
 * (a name and its value), the values. Takes time linear in the text.
 */
export function* redactJson(json: string, scanner: Scanner): Work<FilteredText> {
  if (!(yield* isJson(json))) {
    const matches = yield* scanner.scan(json)
    return { text: yield* redactText(json, matches), matches }
  }
  const matches = yield* scanner.scanWritten(json)
  const rewriter = new JsonRewriter(
    json,
    yield* MatchIndex.create(matches),
    yield* listReplacements(matches),
  )
  for (const token of readTokens(json)) {
    if (token) {
      const decoded = token.isText ? yield* scanner.scan(decodeToken(json, token)) : []
      yield* rewriter.rewriteToken(token, decoded)
    }
    yield
  }
  return { text: rewriter.end(), matches: matches.concat(rewriter.hidden) }
}

/** Writes a JSON text with its matches replaced, token by token. */
class JsonRewriter {
  /** The matches that were not visible in the JSON text. */
  readonly hidden: Match[] = []
  readonly #json: string
  readonly #visible: MatchIndex
  readonly #replacements: Replacement[]
  readonly #result = new TextBuilder()
  #nextReplacement = 0
  #written = 0

  constructor(json: string, visible: MatchIndex, replacements: Replacement[]) {
    this.#json = json
    this.#visible = visible
    this.#replacements = replacements
  }

  /** Writes the next token: with what was found in its decoded text, or in the JSON text. */
  *rewriteToken(token: JsonToken, decodedMatches: Match[]): Work<void> {
    const replacement = this.#findReplacement(token)
    if (decodedMatches.length > 0) yield* this.#addHidden(token, decodedMatches)
    if (!replacement && decodedMatches.length === 0) return
    this.#result.add(
      this.#json.slice(this.#written, token.start),
      yield* renderToken(this.#json, token, decodedMatches, replacement),
    )
    this.#written = token.end
  }

  end(): string {
    this.#result.add(this.#json.slice(this.#written))
    return this.#result.end()
  }

  *#addHidden(token: JsonToken, decodedMatches: Match[]): Work<void> {
    let text: string | undefined
    for (const match of decodedMatches) {
      yield
      if (this.#visible.overlaps(match.rule, token)) continue
      text ??= decodeToken(this.#json, token)
      this.hidden.push({ ...match, matchedText: text.slice(match.start, match.end) })
    }
  }

  /** Finds the first replacement that has a part of the token. Tokens come in order. */
  #findReplacement({ start, end }: JsonToken): Replacement | undefined {
    while ((this.#replacements[this.#nextReplacement]?.end ?? end) <= start)
      this.#nextReplacement += 1
    const next = this.#replacements[this.#nextReplacement]
    return next && next.start < end ? next : undefined
  }
}

function* renderToken(
  json: string,
  token: JsonToken,
  decodedMatches: Match[],
  replacement: Replacement | undefined,
): Work<string> {
  const original = json.slice(token.start, token.end)
  const hidden = token.isText ? yield* listReplacements(decodedMatches) : []
  if (hidden.length > 0)
    return JSON.stringify(yield* replaceParts(decodeToken(json, token), hidden))
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
function replacePart(json: string, { start, end }: JsonToken, replacement: Replacement): string {
  const inner = json.slice(start + 1, end - 1)
  if (inner.includes('\\')) return replacement.label
  return (
    inner.slice(0, Math.max(0, replacement.start - start - 1)) +
    replacement.label +
    inner.slice(Math.max(0, replacement.end - start - 1))
  )
}
