import type { Builtin } from './builtin.ts'
import type { LABELS } from './labels.data.ts'

/** Every builtin, loaded on first use. */
export const BUILTINS = {
  email: async () => (await import('./email.ts')).email,
  phone: async () => (await import('./phone.ts')).phone,
  ssn: async () => (await import('./ssn.ts')).ssn,
  'credit-card': async () => (await import('./credit-card.ts')).creditCard,
  'ip-address': async () => (await import('./ip-address.ts')).ipAddress,
  'person-name': async () => (await import('./person-name.ts')).personName,
  address: async () => (await import('./address.ts')).address,
  'regex-prompt-injection': async () =>
    (await import('./regex-prompt-injection.ts')).promptInjection,
  secrets: async () => (await import('./secrets.ts')).secrets,
} satisfies Record<BuiltinSlug, () => Promise<Builtin>>

export type BuiltinSlug = keyof typeof LABELS
