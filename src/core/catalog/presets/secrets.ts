import { invalid } from '../../errors.ts'
import { maskCredential, replaceCredentials } from '../../kernel/credential.ts'
import { isObject, isRawJson } from '../../kernel/json.ts'
import type { PresetDraft } from './draft.ts'

/**
 * Returns the content of a preset as the API shows it: what is a credential, by its name or by its
 * look, is masked. Calls alone use it whole.
 */
export const maskContent = <Content extends PresetDraft>(content: Content): Content => ({
  ...content,
  system_prompt: maskValue(content.system_prompt),
  config: maskValue(content.config),
})

const maskValue = <Value>(value: Value): Value =>
  replaceCredentials(value, {
    whole: maskCredential,
    partial: (text, spans) =>
      spans.reduceRight(
        (masked, { start, end }) =>
          masked.slice(0, start) + maskCredential(text.slice(start, end)) + masked.slice(end),
        text,
      ),
  }) as Value

/**
 * Puts credentials back that were read masked and are sent again: a text that equals what is shown
 * of the one at its place. Throws 400 where that would go to another address from now on.
 */
export function restoreContent(draft: PresetDraft, before: PresetDraft): PresetDraft {
  const restore = <Value>(name: 'system_prompt' | 'config', value: Value): Value =>
    restoreValue(value, { path: name, value: before[name], shown: maskValue(before[name]) }, false)
  return {
    system_prompt: restore('system_prompt', draft.system_prompt),
    config: restore('config', draft.config),
  }
}

/** What stood at a place, and what is shown of it. */
interface Earlier {
  path: string
  value: unknown
  shown: unknown
}

/** The fields that say where an object's credentials are sent. */
const ADDRESSES = ['server_url', 'url', 'base_url']

function restoreValue<Value>(value: Value, earlier: Earlier, isElsewhere: boolean): Value {
  if (typeof value === 'string') return restoreText(value, earlier, isElsewhere) as Value
  if (typeof value !== 'object' || value === null || isRawJson(value)) return value
  const isMoved =
    isElsewhere ||
    ADDRESSES.some(name => {
      const next = getMember(value, name)
      return next !== getMember(earlier.value, name) && next !== getMember(earlier.shown, name)
    })
  const restoreMember = (name: string, member: unknown) =>
    restoreValue(
      member,
      {
        path: `${earlier.path}.${name}`,
        value: getMember(earlier.value, name),
        shown: getMember(earlier.shown, name),
      },
      isMoved,
    )
  if (Array.isArray(value)) return value.map((one, i) => restoreMember(`${i}`, one)) as Value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, restoreMember(name, member)]),
  ) as Value
}

function restoreText(text: string, { path, value, shown }: Earlier, isElsewhere: boolean): unknown {
  if (text !== shown || text === value) return text
  if (!isElsewhere) return value
  throw invalid(`${path}: expected again, since it goes to another address from now on`, path)
}

const getMember = (value: unknown, name: string): unknown =>
  (isObject(value) || Array.isArray(value)) && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
