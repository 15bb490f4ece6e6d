/**
 * The text that replaces what a built-in content filter finds (wire reference H.2), by its slug.
 */
export const LABELS = {
  email: '[EMAIL]',
  phone: '[PHONE]',
  ssn: '[SSN]',
  'credit-card': '[CREDIT_CARD]',
  'ip-address': '[IP_ADDRESS]',
  'person-name': '[PERSON_NAME]',
  address: '[ADDRESS]',
  'regex-prompt-injection': '[PROMPT_INJECTION]',
  // Not in the published list.
  secrets: '[SECRET]',
} as const
