// Package config reads the configuration file of gscd: one YAML file, overridden
// by the environment, overridden by flags. It turns text into plain structs with
// every setting resolved and checked; what the settings do is others' business.
//
// Nouns: Config (the result), Table (a table with all its settings), Settings
// (what the section defaults may set for every table), Input (where the text
// comes from), Faults (everything that is wrong, at once).
//
// Invariants:
//
//  1. A Config that Load returned has no empty setting that has a default, and
//     nothing in it contradicts anything else in it.
//  2. Load reports every fault that it finds, each with the line, the variable or
//     the flag that it comes from, not only the first one.
//  3. An unknown key is a fault. Nothing is guessed.
//  4. A secret is printed by nothing but Reveal.
//  5. What Show prints, Load reads back as the same Config, secrets aside.
//
// It imports nothing of ours, and only the command imports it.
package config
