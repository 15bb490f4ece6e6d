import { defineAudit, identifyById } from '../../identity/audit/entry.ts'
import { maskContent } from './secrets.ts'
import type { DesignatedPreset, Preset } from './store.ts'

/** Returns a preset as lists show it, without its current version. */
export const showPreset = ({ designated_version: _, ...preset }: DesignatedPreset): Preset => preset

/** Returns a preset with its current version, whose credentials are masked. */
export const showDesignated = (preset: DesignatedPreset): DesignatedPreset => ({
  ...preset,
  designated_version: maskContent(preset.designated_version),
})

/** Makes the audit entry of a change of a preset. */
export const auditPreset = defineAudit<Preset>('presets', { identify: identifyById })
