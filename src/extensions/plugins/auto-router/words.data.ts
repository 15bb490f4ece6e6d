/** The tasks that words identify. Of two with the same weight the first counts. */
export const WORD_TASKS = [
  'translation',
  'summarization',
  'creative-writing',
  'math',
  'code',
  'reasoning',
] as const
export type WordTask = (typeof WORD_TASKS)[number]

/** The words and signs of a task, in lower case. */
interface TaskWords {
  /** Words that identify the task alone. */
  strong: string[]
  /** Words that identify the task together with another. */
  weak: string[]
  /** Texts that identify the task alone, even within words: signs, and scripts without spaces. */
  signs: string[]
}

const buildTaskWords = (strong: string, weak: string, signs: string[]): TaskWords => ({
  strong: strong.split(' '),
  weak: weak.split(' '),
  signs,
})

/** English and German, and the most common words of French, Spanish, Chinese and Japanese. */
export const WORDS: Record<WordTask, TaskWords> = {
  translation: buildTaskWords(
    'translate translated translation translator übersetze übersetzt übersetzen ' +
      'übersetzung übersetzer traduis traduire traduction traduce traducir traducción',
    'english german french spanish italian chinese japanese englisch englische deutsch ' +
      'deutsche französisch französische spanisch spanische italienisch language sprache',
    ['翻译', '翻訳', 'ins englische', 'ins deutsche', 'auf englisch übertragen'],
  ),
  summarization: buildTaskWords(
    'summarize summarise summarized summary summaries tldr condense zusammenfassen ' +
      'zusammenfassung zusammengefasst kernaussagen résumer résumé resumir resumen',
    'fasse zusammen shorten kürze points stichpunkte overview überblick article artikel',
    ['tl;dr', '总结', '要約', 'key points', 'main points'],
  ),
  'creative-writing': buildTaskWords(
    'poem poems poetry haiku limerick sonnet lyrics screenplay fairytale gedicht gedichte ' +
      'märchen kurzgeschichte liedtext drehbuch sonett poème conte poema cuento',
    'story stories novel tale write rhyme character plot slogan joke geschichte roman ' +
      'schreibe reim figur erzählung erzähle witz creative kreativ fictional erfundene',
    ['once upon a time', 'es war einmal', '写一首', '物語を'],
  ),
  math: buildTaskWords(
    'equation equations integral derivative theorem lemma polynomial eigenvalue algebra ' +
      'calculus trigonometry logarithm gleichung gleichungen ableitung polynom eigenwert ' +
      'algebra bruchrechnung wahrscheinlichkeit beweise',
    'solve calculate compute sum product prove proof probability percent fraction matrix ' +
      'vector angle triangle equals löse berechne ausrechnen summe produkt beweis prozent ' +
      'bruch matrix vektor winkel dreieck math maths mathe',
    [
      '\\frac',
      '\\int',
      '\\sum',
      '\\sqrt',
      '∫',
      '∑',
      '√',
      'x^2',
      'square root',
      'quadratwurzel',
      '求解',
      '方程',
    ],
  ),
  code: buildTaskWords(
    'python javascript typescript golang kotlin haskell sql regex dockerfile kubernetes ' +
      'refactor refactoring debug debugger stacktrace traceback compiler segfault npm github ' +
      'html css programmieren programmiere quellcode programmcode quelltext',
    'code java rust function functions funktion method methode class klasse bug bugs ' +
      'script skript error fehler exception compile kompiliert algorithm algorithmus api ' +
      'endpoint json yaml bash shell terminal repository database datenbank variable loop ' +
      'schleife array parser unit tests test implement implementiere programm program ' +
      'software quicksort mergesort recursive recursion rekursiv backend frontend react ' +
      'django kernel git',
    [
      '```',
      '#include',
      '=> {',
      '();',
      'def __',
      'import react',
      'select * from',
      'stack trace',
      '代码',
      'コード',
    ],
  ),
  reasoning: buildTaskWords(
    'puzzle riddle paradox deduce syllogism rätsel denksport paradoxon schlussfolgere ' +
      'schlussfolgerung folgere',
    'reason reasoning logic logical logically analyze analyse analysis compare evaluate ' +
      'argue consequences trade-offs carefully strategy decide logik logisch analysiere ' +
      'abwägen abwägung vergleiche bewerte begründe folgerung sorgfältig strategie ' +
      'entscheide warum why',
    [
      'step by step',
      'schritt für schritt',
      'think carefully',
      'denke gründlich',
      'pros and cons',
      'vor- und nachteile',
      '一步一步',
    ],
  ),
}
