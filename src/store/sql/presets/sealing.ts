import { replaceCredentials } from '../../../base/credential.ts'
import { isObject, isRawJson, type Json } from '../../../base/json.ts'
import type { Seal } from '../../../base/seal.ts'
import type { PresetVersion } from '../../../resources/presets/store.ts'

export type Content = Pick<PresetVersion, 'id' | 'system_prompt' | 'config'>

/** The member that holds a sealed text. */
export const SEALED = '$sealed'
/** The member of a config that holds a system prompt with a credential in it. */
const SYSTEM_PROMPT = '$system_prompt'

/**
 * Seals every text of a version that is or contains a credential, as it is stored. The version's id
 * is the context, so a sealed text that is copied into another preset does not open there.
 */
export function sealVersion<Version extends Content>(version: Version, seal: () => Seal): Version {
  const sealOwn = (text: string) => sealText(text, version.id, seal)
  const replace = (value: unknown) =>
    replaceCredentials(value, { whole: sealOwn, partial: sealOwn })
  const prompt = replace(version.system_prompt)
  const config = replace(version.config) as Json
  if (!isObject(prompt)) return { ...version, config }
  return { ...version, system_prompt: null, config: { ...config, [SYSTEM_PROMPT]: prompt } }
}

/**
 * Opens what `sealVersion` has sealed. A text that was sealed with another secret stays sealed, and
 * is refused where it is used.
 */
export function openVersion<Version extends Content>(version: Version, seal: () => Seal): Version {
  const { [SYSTEM_PROMPT]: prompt, ...config } = openValue(version.config, version.id, seal) as Json
  return { ...version, config, system_prompt: (prompt as string) ?? version.system_prompt }
}

function openValue(value: unknown, id: string, seal: () => Seal): unknown {
  if (Array.isArray(value)) return value.map(item => openValue(item, id, seal))
  if (!isObject(value) || isRawJson(value)) return value
  const sealed = value[SEALED]
  const text = typeof sealed === 'string' ? tryToOpen(sealed, id, seal) : undefined
  if (text !== undefined) return text
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, openValue(member, id, seal)]),
  )
}

// Without its secret the gateway must still start.
export function tryToOpen(sealed: string, id: string, seal: () => Seal): string | undefined {
  try {
    return seal().open(sealed, id)
  } catch {
    return undefined
  }
}

export const sealText = (text: string, id: string, seal: () => Seal) => ({
  [SEALED]: seal().seal(text, id, crypto.getRandomValues(new Uint8Array(12))),
})
