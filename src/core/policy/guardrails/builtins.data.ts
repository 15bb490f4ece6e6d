/** The content filters that are built in, and what they put in the place of what they find (wire reference H.2). */
export const BUILTINS = {
  email: '[EMAIL]',
  phone: '[PHONE]',
  ssn: '[SSN]',
  'credit-card': '[CREDIT_CARD]',
  'ip-address': '[IP_ADDRESS]',
  'person-name': '[PERSON_NAME]',
  address: '[ADDRESS]',
  'regex-prompt-injection': '[PROMPT_INJECTION]',
  // Not published there.
  secrets: '[SECRET]',
} as const
