CREATE DATABASE shop;
CREATE USER 'debezium'@'%' IDENTIFIED BY 'only-for-this-demo';
GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR, LOCK TABLES ON *.* TO 'debezium'@'%';
USE shop;
CREATE TABLE users (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL, city VARCHAR(40));
CREATE TABLE orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, user_id BIGINT NOT NULL, total DECIMAL(12,2) NOT NULL, state VARCHAR(12) NOT NULL, ordered_at DATETIME(3) NOT NULL);
INSERT INTO users (name, city) VALUES ('Chen Jie', 'Beijing'), ('Li Na', 'Hangzhou'), ('Wang Fang', 'Wuhan'), ('Zhao Lei', 'Beijing'), ('Liu Yang', 'Beijing');
