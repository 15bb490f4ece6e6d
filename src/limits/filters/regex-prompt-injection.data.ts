const EARLIER =
  '(?:previous|prior|preceding|earlier|above|foregoing|former|existing|original|initial|past)'
const RULES =
  '(?:instructions?|rules?|prompts?|directives?|guidelines?|commands?|constraints?' +
  '|restrictions?|programming|directions?|orders?)'
const ALL =
  '(?:(?:any|all|every|each|of|the|your|my|these|those|this|that|and|other|system' +
  '|everything|you|were|given|have|been)\\s+)*'
const SECRET_TEXT =
  '(?:system\\s+prompt|initial\\s+prompt|hidden\\s+prompt|original\\s+prompt' +
  '|secret\\s+prompt|system\\s+message|(?:initial|original|hidden|secret|system|internal' +
  '|full|exact)\\s+instructions|instructions\\s+(?:above|verbatim)|prompt\\s+above' +
  '|system\\s+instructions)'
const SAFETY =
  '(?:safety|security|content|ethical|moral|moderation|guardrails?|safeguards?|filters?' +
  '|restrictions?|limitations?|policies|policy|alignment|censorship)'
const TO_ME = '(?:to\\s+me\\s+|me\\s+)?'
const YOUR = '(?:(?:all|any|the|your|its|of|every|these|those)\\s+)*'

/** What a bypass ends with. */
export const WITHOUT_RULES =
  '(?:no|without(?:\\s+any)?)\\s+(?:rules|restrictions|filters|guidelines|limitations)'

/**
 * Phrases of prompt attacks, by their names in the public list (wire reference H.2), in RE2's
 * syntax, for any case. Blanks between words are always `\s+`, so that they can be removed to
 * search spaced letters.
 */
export const INJECTIONS: Record<string, string> = {
  ignore_previous_instructions:
    `ignore\\s+${ALL}(?:${EARLIER}\\s+)(?:${EARLIER}\\s+)?${RULES}|ignore\\s+(?:all|any` +
    '|every|the|your)\\s+(?:of\\s+)?(?:your\\s+|the\\s+)?(?:instructions|rules|guidelines' +
    '|directives)|ignore\\s+everything\\s+(?:above|before|i\\s+said|you\\s+were\\s+told)',
  disregard_instructions: `disregard\\s+${ALL}(?:${EARLIER}\\s+)?${RULES}`,
  forget_instructions:
    `forget\\s+${ALL}(?:${EARLIER}\\s+)?${RULES}|forget\\s+everything\\s+(?:above|before` +
    '|you\\s+(?:were|have\\s+been)\\s+told|you\\s+know)',
  new_instructions:
    'new\\s+(?:system\\s+)?instructions?\\s*(?::|are\\s+as\\s+follows|follow)|(?:here' +
    '|these)\\s+are\\s+your\\s+new\\s+(?:instructions|rules|orders)',
  do_not_follow:
    "(?:do\\s+not|don['’]?t|never|stop)\\s+(?:follow|obey|following" +
    `|obeying)(?:ing)?\\s+${ALL}(?:${EARLIER}\\s+)?${RULES}`,
  supersede_instructions: `supersedes?\\s+${ALL}(?:${EARLIER}\\s+)?${RULES}`,
  void_instructions:
    `${RULES}\\s+(?:above\\s+)?(?:are|is)\\s+(?:now\\s+)?(?:void|null\\s+and\\s+void` +
    '|cancelled|canceled|revoked|no\\s+longer\\s+(?:valid|apply|applicable))',
  developer_mode:
    '(?:enable|activate|enter|switch\\s+to|turn\\s+on' +
    '|you\\s+are\\s+(?:now\\s+)?in)\\s+(?:the\\s+)?(?:developer|dev|debug' +
    '|maintenance)\\s+mode|developer\\s+mode\\s+(?:enabled|activated|on|output)',
  enter_special_mode:
    '(?:enter|switch\\s+(?:in)?to|go\\s+into|you\\s+are\\s+(?:now\\s+)?in)\\s+(?:a\\s+' +
    '|the\\s+)?(?:god|admin|root|sudo|unrestricted|unfiltered|uncensored|evil|chaos' +
    '|jailbroken|no[- ]limits)\\s+mode',
  activate_special_mode:
    '(?:activate|enable|turn\\s+on)\\s+(?:the\\s+)?(?:god|admin|root|sudo|unrestricted' +
    '|unfiltered|uncensored|evil|chaos|jailbroken|no[- ]limits)\\s+mode',
  system_override:
    'system\\s+override|override\\s+(?:the\\s+|your\\s+)?system|admin(?:istrator)?\\s+override',
  override_instructions:
    `(?:override|overrule|overwrite|bypass)\\s+${ALL}` + `(?:${EARLIER}\\s+)?${RULES}`,
  reveal_prompt: `(?:reveal|disclose|leak|expose|divulge)\\s+${TO_ME}${YOUR}${SECRET_TEXT}`,
  show_prompt: `(?:show|tell|give|send|display)\\s+(?:me\\s+|us\\s+)?${YOUR}${SECRET_TEXT}`,
  what_instructions:
    `what\\s+(?:is|are|was|were)\\s+(?:your|the)\\s+(?:exact\\s+|full\\s+)?${SECRET_TEXT}` +
    '|what\\s+were\\s+you\\s+(?:told|instructed)\\s+(?:to\\s+do\\s+)?(?:before|above' +
    '|at\\s+the\\s+(?:beginning|start))',
  repeat_instructions:
    `(?:repeat|recite|copy|echo)\\s+${YOUR}(?:${SECRET_TEXT}|(?:text|words` +
    '|everything)\\s+above)',
  output_prompt:
    `(?:output|print|write\\s+out|dump|return|type\\s+out)\\s+${YOUR}(?:${SECRET_TEXT}` +
    '|(?:text|words|everything)\\s+above)',
  remove_restrictions:
    `(?:remove|lift|drop|discard|abandon)\\s+${YOUR}(?:restrictions|limitations|safeguards` +
    '|guardrails|filters|censorship)|(?:no|without(?:\\s+any)?|free\\s+of' +
    '|free\\s+from(?:\\s+all)?)\\s+(?:ethical|moral|content|safety)\\s+(?:restrictions' +
    '|limitations|guidelines|filters)',
  act_unbound:
    '(?:act|behave|respond|answer|operate)\\s+(?:as\\s+if|as\\s+though' +
    '|like)\\s+you\\s+(?:have|had|are|were|follow|followed)\\s+(?:no|not|without' +
    '|free\\s+of|unbound)|you\\s+(?:are|have)\\s+(?:now\\s+)?(?:been\\s+)?(?:free|freed' +
    '|unbound|unchained|liberated)\\s+(?:of|from)\\s+(?:all\\s+|any\\s+|your\\s+|the\\s+)',
  pretend_different:
    "pretend\\s+(?:that\\s+)?(?:you\\s+are|you['’]re|to\\s+be)\\s+(?:a\\s+" +
    '|an\\s+)?(?:different|another|unrestricted|unfiltered|uncensored|evil|jailbroken)',
  identity_hijack:
    'you\\s+are\\s+no\\s+longer\\s+(?:an?\\s+)?(?:ai|assistant|language\\s+model|chatgpt' +
    '|claude|gemini|bound|restricted|gpt)|from\\s+now\\s+on[,\\s]+you\\s+(?:are' +
    '|will\\s+(?:act|be|respond|answer))',
  dan_jailbreak:
    '(?:do\\s+anything\\s+now|you\\s+are\\s+(?:now\\s+)?dan\\b|act\\s+as\\s+dan\\b' +
    '|dan\\s+mode|stay\\s+(?:a\\s+)?dan\\b)',
  jailbreak_mode:
    'jailbreak\\s+(?:mode|prompt|enabled|activated)|(?:enable|activate|enter)\\s+jailbreak' +
    '|you\\s+(?:are|have\\s+been)\\s+(?:now\\s+)?jailbroken',
  bypass_safety: `(?:bypass|circumvent|evade|get\\s+around)\\s+${YOUR}${SAFETY}`,
  disable_safety:
    '(?:disable|deactivate|turn\\s+off' +
    `|switch\\s+off)\\s+${YOUR}(?:${SAFETY}\\s+)?(?:filters?|guardrails?|safeguards?` +
    '|safety|protocols?|moderation|restrictions|alignment|censorship)',
  ignore_safety:
    `ignore\\s+${YOUR}(?:safety|ethical|moral|content|moderation` +
    '|security)\\s+(?:guidelines?|rules?|filters?|polic(?:y|ies)|protocols?|restrictions?' +
    '|concerns?)',
  hypothetical_bypass: `hypothetical(?:ly)?[^.!?\\n]{0,60}${WITHOUT_RULES}`,
  forged_confirmation:
    '(?:this|it)\\s+(?:has\\s+been|is|was)\\s+(?:approved|authorized' +
    '|authorised)\\s+by\\s+(?:the\\s+)?(?:openai|anthropic|google|developers?' +
    '|administrators?|admin)',
}

/**
 * Text that imitates a message of another role. It consists of punctuation, so it is searched only
 * as written.
 */
export const SPOOFS: Record<string, string> = {
  system_tag_injection:
    '<\\s*/?\\s*(?:system|sys|instructions?|system_prompt|im_start' +
    '|im_end)\\s*(?:\\|\\s*)?>|<\\|\\s*(?:system|im_start|im_end|endoftext|start_header_id' +
    '|eot_id)\\s*\\|>|<<\\s*/?\\s*SYS\\s*>>|\\[/?INST\\]',
  role_tag_injection: '<\\s*/?\\s*(?:assistant|developer|admin)\\s*>',
  role_delimiter_injection:
    '(?m:^|\\n)\\s*#{2,4}\\s*(?:system|instructions?|assistant' +
    '|new\\s+instructions?)\\s*:?\\s*(?:\\n|$)|-{3,}\\s*(?:begin|end' +
    '|start)\\s+(?:of\\s+)?(?:system|new)\\s+(?:prompt|instructions?)',
  bracketed_role_spoofing:
    '\\[\\s*/?\\s*(?:system|admin|administrator|developer|system\\s+message' +
    '|system\\s+prompt|override)\\s*\\]\\s*:?',
}

/** Words that are recognised with their middle letters reordered. */
export const SCRAMBLED = [
  'ignore',
  'bypass',
  'override',
  'reveal',
  'delete',
  'system',
  'prompt',
  'instructions',
  'previous',
  'disregard',
  'forget',
]

/** Words that do not occur in Base64 or hexadecimal digits by accident. */
export const ENCODED = ['ignore', 'bypass', 'override', 'reveal', 'system', 'prompt']

/**
 * Letters of other alphabets that look like a Latin one and that NFKC does not map (the common ones
 * of Unicode's confusables).
 */
export const CONFUSABLES: Record<string, string> = {
  а: 'a',
  в: 'b',
  е: 'e',
  ё: 'e',
  і: 'i',
  ї: 'i',
  ј: 'j',
  к: 'k',
  м: 'm',
  н: 'h',
  о: 'o',
  р: 'p',
  с: 'c',
  ѕ: 's',
  т: 't',
  у: 'y',
  х: 'x',
  ԁ: 'd',
  ԛ: 'q',
  ԝ: 'w',
  һ: 'h',
  α: 'a',
  β: 'b',
  ε: 'e',
  η: 'n',
  ι: 'i',
  κ: 'k',
  ν: 'v',
  ο: 'o',
  ρ: 'p',
  τ: 't',
  υ: 'u',
  χ: 'x',
  ϲ: 'c',
  ı: 'i',
  ɡ: 'g',
  ɑ: 'a',
  ｌ: 'l',
}
