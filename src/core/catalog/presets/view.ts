import { defineAudit, identifyById } from '../../identity/audit/entry.ts'
import type { DesignatedPreset, Preset } from './store.ts'

/** Returns a preset as lists show it, without its current version. */
export const showPreset = ({ designated_version: _, ...preset }: DesignatedPreset): Preset => preset

/** Makes the audit entry of a change of a preset. */
export const auditPreset = defineAudit<Preset>('presets', { identify: identifyById })
